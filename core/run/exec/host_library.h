/* run/exec/host_library.h: which groups of a library's collectives on host memory are complete.
 *
 * One mutex protects the communicators of all libraries: the thread that holds it starts a group or
 * polls test(). That is the compute thread, and while it computes, a progress thread. The progress
 * thread polls at intervals, since a library has no call that waits, and sleeps when no group is in
 * flight. Its failures are stored, and the next call of the compute thread returns them. */
#ifndef RUN_EXEC_HOST_LIBRARY_H
#define RUN_EXEC_HOST_LIBRARY_H

#include "job/job.h"
#include "plan/plan.h"

#include <weft/coll.h>

typedef struct run_host_library run_host_library; /* opaque */

/* [setup] */
weft_status run_host_library_create(const plan *p, job *j, run_host_library **out);

/* Channel `number` of the plan has this communicator. [setup] */
void run_host_library_add(run_host_library *h, uint32_t number, weft_comm *comm);

/* Enter before calls of communicators, leave after them. `overlap`: computation follows, so the
 * progress thread is woken. Entering fails with the stored failure and is left in that case, too.
 * [compute] */
weft_status run_host_library_enter(run_host_library *h);
void run_host_library_leave(run_host_library *h, bool overlap);

/* Inside: wait until the library allows an operation on the channel besides those in flight.
 * [compute] */
weft_status run_host_library_wait_capacity(run_host_library *h, uint32_t number, double deadline);

/* Inside: a group with these collectives has been started. [compute] */
void run_host_library_started(run_host_library *h, const uint32_t *collectives, uint32_t n);

/* Wait until collective `number` is complete, a rank or the library fails, or `deadline` seconds
 * pass. [compute] */
weft_status run_host_library_wait(run_host_library *h, uint32_t number, double deadline);

/* Begin and end of its last start, clock_ns(). [compute] */
void run_host_library_times(const run_host_library *h, uint32_t number, uint64_t *began,
                            uint64_t *ended);

/* Stop the progress thread within `seconds`. False: it hangs in the library. [setup] */
bool run_host_library_stop(run_host_library *h, double seconds);

/* Free it when its thread has been stopped; NULL allowed. [setup] */
void run_host_library_free(run_host_library *h);

#endif
