/* base/thread.h: threads beside the one that computes. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* Start a thread that gets no signal of the process, but the faults that it causes itself. `name`
 * has at most 15 bytes; `out` NULL: nobody joins it. Returns 0 or an errno. [any] */
int thread_start(pthread_t *out, const char *name, void *(*body)(void *), void *arg);

#endif
