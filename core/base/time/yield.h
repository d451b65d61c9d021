/* base/time/yield.h: let other threads have the core between two looks at what a thread waits for.
 *
 * Linux lets a thread that yields wait until all others of its core have used up their time:
 * microseconds where these are threads that wait as well, milliseconds beside a program that
 * computes. After such a yield it is better to sleep, since who sleeps runs as soon as it is woken.
 */
#ifndef BASE_YIELD_H
#define BASE_YIELD_H

#include <sched.h>
#include <stdbool.h>

#include "base/clock.h"

#define YIELD_LONG_NS 1000000u  /* a yield that takes longer has given the core to a program ... */
#define YIELD_BAN_NS 200000000u /* ... and there is no further one for so long */

/* Yield, unless a yield took long a moment ago: then false, and the caller should sleep.
 * *banned_until, 0 at first, is kept by the caller between calls. [one thread at a time] */
static inline bool yield_core(uint64_t *banned_until)
{
    const uint64_t before = clock_ns();
    if (before < *banned_until)
        return false;
    sched_yield();
    const uint64_t after = clock_ns();
    if (after - before > YIELD_LONG_NS)
        *banned_until = after + YIELD_BAN_NS;
    return true;
}

#endif
