/* base/clock.h: time that never steps back, the processor's counter, and the wait of a spin loop.
 *
 * Durations use clock_ns() and clock_ms(), deadlines base/time/awake.h; wall-clock time is for
 * printing alone. clock_ticks() is for code that reads the time for every message: it costs about a
 * third of clock_ns(). Its unit is the processor's, so a reader takes clock_ticks() and clock_ns()
 * at two moments and converts with the ratio. All processor-specific code of core/ outside the
 * vector kernels is in this file; any other processor takes the portable path. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <weft/pause.h>

#include <stdint.h>
#include <time.h>

/* Nanoseconds since an unspecified start. [any] */
static inline uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Milliseconds since the same start. [any] */
static inline uint64_t clock_ms(void)
{
    return clock_ns() / 1000000u;
}

/* Time in a unit of the processor: constant while the process runs, equal on all cores. [any] */
static inline uint64_t clock_ticks(void);

#if defined(__x86_64__)
static inline uint64_t clock_ticks(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t clock_ticks(void)
{
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
}
#else
static inline uint64_t clock_ticks(void)
{
    return clock_ns();
}
#endif

/* One iteration of a loop that spins until memory changes. [any] */
static inline void clock_pause(void)
{
    weft_pause();
}

#endif
