/* base/time/took.h: for how long a thread could run and other threads had the cores. */
#ifndef BASE_TOOK_H
#define BASE_TOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the kernel has counted of a thread, in nanoseconds since its start. It adds the time in the
 * queue of a core when the thread leaves the queue. */
typedef struct took_thread {
    uint64_t ran, queued;
    bool can_run; /* it runs, or is in the queue of a core */
} took_thread;

/* Look at thread `tid` of this process; false: the kernel does not report it. [any] */
bool took_look(pid_t tid, took_thread *out);

/* How much of the `gap` nanoseconds between two looks passed with the thread out of the queue; a
 * quarter of them at least, so that nothing takes for ever. [any] */
uint64_t took_between(const took_thread *before, const took_thread *after, uint64_t gap);

#endif
