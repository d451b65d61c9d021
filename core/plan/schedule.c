/* plan/schedule.c: the schedule of a planned collective.
 *
 * The plan has chosen the algorithm for the whole group, because scratch and digests depend on it.
 * At run time the schedule is built with that algorithm; `auto` and rules are not evaluated
 * again. */
#include "plan/plan.h"

weft_status plan_schedule(const plan *p, const plan_collective *c, uint32_t me,
                          sched_schedule **out)
{
    sched_request r;
    plan_request(p, c, me, &r);
    if (!plan_between_two(c))
        r.algorithm = c->algorithm;
    return sched_make(&r, out);
}
