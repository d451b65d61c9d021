/* base/time/date.h: a time for people, in UTC. */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include <stdint.h>

/* "2026-11-29T02:03:04.123Z" of the milliseconds since 1970; returns the end of the text.
 * Async-signal-safe, which gmtime_r() is not: it takes a lock. [any] */
char *date_text(uint64_t ms, char out[32]);

/* The same of now. */
char *date_now(char out[32]);

#endif
