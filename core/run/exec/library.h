/* run/exec/library.h: collectives executed by a communication library such as NCCL (weft/coll.h),
 * ordered on streams of the device.
 *
 * Each channel has a communicator and a stream. A start makes the channel's stream wait for the
 * work enqueued before it; a wait makes the compute stream wait for the end of the collective. The
 * host blocks in neither. Errors are detected where the host waits for the device, at the end of a
 * list, by run_library_health(). */
#ifndef RUN_EXEC_LIBRARY_H
#define RUN_EXEC_LIBRARY_H

#include "comm/comm.h"
#include "plan/plan.h"

typedef struct colls colls; /* opaque */

/* The device as the executor opened it. */
typedef struct run_library_device {
    const weft_device_table *table;
    weft_device *device;
    weft_stream *compute;
    char *base; /* the arena's */
} run_library_device;

/* Open a communicator for each channel of a library that `rank` belongs to. *out stays NULL where
 * the plan has none. [setup] [collective] */
weft_status run_library_create(const plan *p, job *j, uint32_t rank, const run_library_device *d,
                               double deadline, colls **out);

/* With `failed`, abort operations in flight, on a thread that is abandoned if the library hangs.
 * NULL allowed. [setup] */
void run_library_destroy(colls *c, int failed);

/* Whether a library executes this collective. */
int run_library_has(const colls *c, uint32_t number);

/* Enqueue a collective from and to these arena offsets. Consecutive starts form one group, opened
 * by the first and launched by the last. [compute] */
weft_status run_library_start(colls *c, uint32_t number, uint64_t from, uint64_t to, int first,
                              int last);
weft_status run_library_wait(colls *c, uint32_t number); /* [compute] */
uint64_t run_library_sent(const colls *c); /* payload bytes so far; NULL allowed [any] */
weft_status run_library_health(colls *c);  /* NULL allowed [compute] */

#endif
