/* base/time/within.h: waits for a lock or for the end of a thread, for a limited time.
 *
 * POSIX has them with a deadline on the wall clock, which may be set meanwhile: then the wait ends
 * at once, or lasts for a day. These count by awake.h, and look once a millisecond. */
#ifndef BASE_WITHIN_H
#define BASE_WITHIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Lock `m`; false: it was not to be had within `ms`. [any] */
bool within_lock(pthread_mutex_t *m, uint64_t ms);

/* Join `t`; false: it had not ended within `ms`, and is still to be joined. [any] */
bool within_join(pthread_t t, uint64_t ms);

#endif
