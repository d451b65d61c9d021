/* plan/lower/zero_schedule.h: when sharded parameters and gradients (ZeRO) are gathered and freed.
 */
#ifndef PLAN_LOWER_ZERO_SCHEDULE_H
#define PLAN_LOWER_ZERO_SCHEDULE_H

#include "plan/lower/walk.h"

/* Around the works of a list: see walk.h. */
weft_status plan_zero_begin(walk *w);
weft_status plan_zero_before(walk *w, uint32_t at); /* what work `at` reads and adds to is there */
weft_status plan_zero_after(walk *w, uint32_t at);  /* what nobody needs now is freed */
weft_status plan_zero_finish(walk *w);
void plan_zero_free(walk *w);

/* After the update of a group: gather its parameters, unless they stay sharded. */
weft_status plan_zero_updated(builder *b, list *l, uint32_t group);
void plan_zero_gathered(builder *b, list *l); /* wait for all of these */
void plan_gathers_free(builder *b);

#endif
