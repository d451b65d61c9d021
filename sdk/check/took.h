/* check/took.h: how long a call takes on a busy machine: without the time for which its thread
 * could run and other threads had the cores. Where the kernel does not report that time it is
 * included. */
#ifndef CHECK_TOOK_H
#define CHECK_TOOK_H

#include <stdint.h>

/* Call check_took_begin() before a call and check_took_ns() after it, with what that has returned:
 * how long the call computed and slept, in nanoseconds. [any; both on one thread] */
uint64_t check_took_begin(void);
uint64_t check_took_ns(uint64_t since);

#endif
