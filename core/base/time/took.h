/* base/time/took.h: how long a call takes on a busy machine. */
#ifndef BASE_TOOK_H
#define BASE_TOOK_H

#include <stdint.h>

/* Call took_begin() before a call and took_ns() after it, with what that has returned: how long the
 * call computed and slept, in nanoseconds, without the time for which this thread could run and
 * other threads had its core. Where the kernel does not report that time it is included. [any; both
 * on one thread] */
uint64_t took_begin(void);
uint64_t took_ns(uint64_t since);

#endif
