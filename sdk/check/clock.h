/* check/clock.h: the clock of deadlines. It leaves out the time in which work of this machine
 * waited for a processor, as the kernel counts it, so that a verdict does not depend on what else
 * runs. A quarter of the time counts in any case: a plugin that never returns is ended on any
 * machine. */
#ifndef CHECK_CLOCK_H
#define CHECK_CLOCK_H

#include <stdint.h>

#define CHECK_CLOCK_MAX 4u /* real seconds of one, at most */

/* Milliseconds since the first call of this process, or of one that has forked it; may be called by
 * a signal handler. Where the kernel counts no waits it is a plain clock. [any] */
uint64_t check_clock_ms(void);

#endif
