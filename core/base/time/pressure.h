/* base/time/pressure.h: the clock of deadlines for another process. It leaves out the time in which
 * work of this machine waited for a processor, as the kernel counts it, so that a result does not
 * depend on what else runs. A quarter of the time counts in any case: what never returns is ended
 * on any machine. For a call on a thread of this process took.h is exact. */
#ifndef BASE_PRESSURE_H
#define BASE_PRESSURE_H

#include <stdint.h>

#define PRESSURE_MAX 4u /* real seconds of one, at most */

/* Milliseconds since the first call of this process, or of one that has forked it; may be called by
 * a signal handler. Where the kernel counts no waits it is a plain clock. [any] */
uint64_t pressure_ms(void);

#endif
