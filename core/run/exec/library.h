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

#include "comm/comm.h"
#include "plan/plan.h"

typedef struct run_coll_state run_coll_state; /* opaque */

/* The device as the executor opened it. */
typedef struct run_library_device {
    const weft_device_table *table;
    weft_device *device;
    weft_stream *compute;
    char *base;      /* the arena's */
    double deadline; /* limit of a wait on host memory, in seconds */
} run_library_device;

/* Open a communicator for each channel of a library that `rank` belongs to. *out stays NULL where
 * the plan has none. [setup] [collective] */
weft_status run_library_create(const plan *p, job *j, uint32_t rank, const run_library_device *d,
                               double deadline, run_coll_state **out);

/* With `failed`, abort operations in flight, on a thread that is abandoned if the library hangs.
 * False: it hangs, and may still access the arena. NULL allowed. [setup] */
bool run_library_destroy(run_coll_state *c, bool failed);

/* Whether a library executes this collective. */
int run_library_has(const run_coll_state *c, uint32_t number);

/* Whether libraries work on host memory: the device finishes before a start, and the host waits.
 * NULL allowed. [any] */
bool run_library_on_host(const run_coll_state *c);

/* On host memory: begin and end of the last start, clock_ns(). [compute] */
void run_library_times(const run_coll_state *c, uint32_t number, uint64_t *began, uint64_t *ended);

/* Enqueue a collective from and to these arena offsets. Consecutive starts form one group, opened
 * by the first and launched by the last. `overlap`: computation follows. [compute] */
typedef struct run_library_request {
    uint64_t from, to;
    bool first, last, overlap;
} run_library_request;
weft_status run_library_start(run_coll_state *c, uint32_t number, const run_library_request *s);
weft_status run_library_wait(run_coll_state *c, uint32_t number); /* [compute] */
uint64_t run_library_sent(const run_coll_state *c); /* payload bytes so far; NULL allowed [any] */
weft_status run_library_health(run_coll_state *c);  /* NULL allowed [compute] */

#endif
