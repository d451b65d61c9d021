/* launch/policy.c: see policy.h. */
#include "launch/policy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "job/stop.h"
#include "launch/outcome.h"

/* Texts are cut, behind words of other lengths: the shorter one decides, without its "…". */
static bool same_reason(const launch_attempt *a, const launch_attempt *b)
{
    const char *x = a->why + a->reason, *y = b->why + b->reason;
    const char *shorter = strlen(x) < strlen(y) ? x : y, *cut = strstr(shorter, "…");
    const size_t n = cut ? (size_t)(cut - shorter) : strlen(shorter);
    return n && !strncmp(x, y, n);
}

launch_restart launch_restarts_next(launch_restarts *r, const launch_attempt *a, uint32_t *pause)
{
    const launch_attempt *last = r->history.n ? &r->history.at[r->history.n - 1] : NULL;
    const bool progress = a->step > r->furthest;
    const bool one = a->rank != LAUNCH_ALL;
    const bool again = one && last && last->rank == a->rank && last->at == a->at;
    r->in_a_row = progress ? 1 : r->in_a_row + 1;
    r->same = again && r->same ? r->same + 1 : 1;
    r->repeats = last && a->said && !a->step && same_reason(last, a);
    r->furthest = progress ? a->step : r->furthest;
    *vec_push(&r->history) = *a;
    *pause = 0;
    for (uint32_t i = 1; i < r->in_a_row && *pause < RESTART_PAUSE_MAX; i++)
        *pause = *pause ? 2 * *pause : 1;
    if (*pause > RESTART_PAUSE_MAX)
        *pause = RESTART_PAUSE_MAX;
    if (r->least && r->same >= 2 && a->ranks > r->least)
        return RESTART_FEWER;
    return r->repeats || r->in_a_row > r->max ? RESTART_END : RESTART_SAME;
}

void launch_restarts_fewer(launch_restarts *r)
{
    r->in_a_row = r->same = 0;
}

void launch_restarts_say_end(const launch_restarts *r)
{
    if (r->repeats)
        log_line(WEFT_LOG_ERROR,
                 "the job is not started again: attempt %u failed before its first step for the "
                 "same reason as the attempt before it, which a further one would meet as well",
                 r->history.at[r->history.n - 1].number);
    else
        log_line(WEFT_LOG_ERROR,
                 "the job is not started again: %u attempts in a row got no further than step "
                 "%" PRIu64,
                 r->in_a_row, r->furthest);
}

void launch_restarts_say_stopped(int number, uint32_t next)
{
    log_line(WEFT_LOG_WARN, "stopped by %s before attempt %u; %s", job_stop_name(number), next,
             job_stop_advice());
}

void launch_restarts_print(const launch_restarts *r)
{
    for (uint32_t i = 0; i < r->history.n; i++) {
        const launch_attempt *a = &r->history.at[i];
        char line[RESTART_TEXT + 128], got[48] = "before its first step";
        if (a->step)
            snprintf(got, sizeof got, "got to step %" PRIu64, a->step);
        const int n =
            snprintf(line, sizeof line, "  attempt %u, %u rank%s, %.1f s, %s: %s\n", a->number,
                     a->ranks, a->ranks == 1 ? "" : "s", a->seconds, got, a->why);
        log_put(line, (size_t)n);
    }
}

void launch_restarts_free(launch_restarts *r)
{
    free(r->history.at);
    r->history.at = NULL;
    r->history.n = 0;
}
