/* base/time/took.h: how long a call takes on a busy machine. */
#ifndef BASE_TOOK_H
#define BASE_TOOK_H

#include <stdint.h>

/* Before a call, and after it: how long it computed and slept, without the time for which this
 * thread could run and other threads had its core. Where the kernel does not tell, that time is
 * included; time in that queue at one of the two moments is not. [any; both on one thread] */
uint64_t took_begin(void);
uint64_t took_ns(uint64_t since); /* what took_begin() has returned */

#endif
