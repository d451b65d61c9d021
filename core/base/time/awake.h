/* base/time/awake.h: time during which this process ran, for every wait with a deadline.
 *
 * A job may be stopped as a whole: Ctrl-Z, SIGSTOP, scontrol suspend, the freezer of control
 * groups, a paused virtual machine. clock.h counts that time, and a wait would be too late though
 * nobody was slow. Here a gap between two looks at the clock counts as AWAKE_MAX_MS at most.
 *
 * A gap must mean that the process did not run. So a thread looks all the time, from the first
 * question on. Where it gets no core the count is behind clock.h, and deadlines are later. Without
 * the thread, which the system may refuse, the count is that of clock.h. */
#ifndef BASE_AWAKE_H
#define BASE_AWAKE_H

#include <stdint.h>

#define AWAKE_MAX_MS 400u

/* Nanoseconds since an unspecified start. Never steps back. A child process goes on with the count
 * of its parent. [any] */
uint64_t awake_ns(void);

/* Milliseconds since the same start. [any] */
uint64_t awake_ms(void);

/* The count itself, in any unit; for a thread that keeps one of its own. Begins as {.most = ...}:
 * the first look adds nothing. */
typedef struct awake_count {
    uint64_t last; /* time of the last look; 0: none yet */
    uint64_t sum;
    uint64_t max; /* that a gap adds */
} awake_count;

static inline uint64_t awake_look(awake_count *a, uint64_t now)
{
    const uint64_t gap = a->last && now > a->last ? now - a->last : 0;
    a->sum += gap < a->max ? gap : a->max;
    a->last = now;
    return a->sum;
}

#endif
