/* run/exec/library.h: collectives executed by a communication library (weft/coll.h) such as NCCL,
 * ordered on streams of the device, or MPI, on host memory.
 *
 * Each channel has a communicator. On streams, each has a stream too: a start makes it wait for the
 * work enqueued before it; a wait makes the compute stream wait for the end of the collective. The
 * host blocks in neither. Errors are detected where the host waits for the device, at the end of a
 * list, by run_library_health().
 *
 * On host memory the device has finished the work before a start, a wait returns when the
 * collective is complete, and a progress thread advances it meanwhile (host_library.h). */
#ifndef RUN_EXEC_LIBRARY_H
#define RUN_EXEC_LIBRARY_H

#include "run/exec/executor.h"

/* Open a communicator for each channel of a library that this rank belongs to, `timeout` seconds
 * for each. e->library stays NULL where the plan has none. [setup] [collective] */
weft_status run_library_create(run_executor *e, double timeout);

/* With `failed`, abort operations in flight, on a thread that is abandoned if the library hangs.
 * False: it hangs, and may still access the arena. [setup] */
bool run_library_destroy(run_executor *e, bool failed);

/* Whether a library executes this collective. */
bool run_library_has(const run_executor *e, uint32_t number);

/* Whether they work on host memory: the device finishes before a start, the host waits. [any] */
bool run_library_on_host(const run_executor *e);

/* On host memory: begin and end of the last start, clock_ns(). [compute] */
void run_library_times(const run_executor *e, uint32_t number, uint64_t *began, uint64_t *ended);

/* Start the collective of entry `i`, and wait for it: on streams of the device, or on host memory.
 * Consecutive starts on one link form a group, which the last one launches. [compute] */
weft_status run_library_start(run_executor *e, const plan_list *l, uint32_t i);
weft_status run_library_wait(run_executor *e, uint32_t number);
weft_status run_library_start_on_host(run_executor *e, const plan_list *l, uint32_t i);
weft_status run_library_wait_on_host(run_executor *e, uint32_t number);
bool run_library_is_open(const run_executor *e);  /* a group [compute] */
uint64_t run_library_sent(const run_executor *e); /* payload bytes so far [any] */
weft_status run_library_health(run_executor *e);  /* [compute] */

#endif
