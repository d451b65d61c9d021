/* plan/lower/zero_schedule.h: when sharded (ZeRO) parameters and gradients are gathered. */
#ifndef PLAN_LOWER_ZERO_SCHEDULE_H
#define PLAN_LOWER_ZERO_SCHEDULE_H

#include "plan/lower/walk.h"

/* Around the works of a list: see walk.h. */
weft_status plan_zero_begin(plan_list_builder *w);
weft_status plan_zero_before(plan_list_builder *w,
                             uint32_t at); /* gather what work `at` reads and adds to */
weft_status plan_zero_after(plan_list_builder *w, uint32_t at); /* free what is not needed now */
weft_status plan_zero_finish(plan_list_builder *w);
void plan_zero_free(plan_list_builder *w);

/* After the update of a group: gather its parameters, unless they stay sharded. */
weft_status plan_zero_updated(plan_builder *b, plan_list *l, uint32_t group);
void plan_zero_gathered(plan_builder *b, plan_list *l); /* wait for all of these gathers */

#endif
