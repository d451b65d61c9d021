/* check/clock.h: how long a call takes on a busy machine. */
#ifndef CHECK_CLOCK_H
#define CHECK_CLOCK_H

#include <stdint.h>

/* clock_ns() without the time for which this thread could run and other threads had its core: a
 * difference of two says how long a call computed and slept. Where the kernel does not tell, that
 * time is included. [any; compare within one thread] */
uint64_t check_clock_ns(void);

#endif
