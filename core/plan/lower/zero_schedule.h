/* plan/lower/zero_schedule.h: when sharded (ZeRO) parameters and gradients are gathered. */
#ifndef PLAN_LOWER_ZERO_SCHEDULE_H
#define PLAN_LOWER_ZERO_SCHEDULE_H

#include "plan/lower/walk.h"

/* Around the works of a list: see walk.h. */
weft_status plan_zero_begin(walk *w);
weft_status plan_zero_before(walk *w, uint32_t at); /* gather what work `at` reads and adds to */
weft_status plan_zero_after(walk *w, uint32_t at);  /* free what is not needed now */
weft_status plan_zero_finish(walk *w);
void plan_zero_free(walk *w);

/* After the update of a group: gather its parameters, unless they stay sharded. */
weft_status plan_zero_updated(builder *b, list *l, uint32_t group);
void plan_zero_gathered(builder *b, list *l); /* wait for all of these gathers */
void plan_gathers_free(builder *b);

#endif
