/* run/exec/library.h: collectives that a library brings (weft/coll.h): its own algorithms, ordered
 * on streams of the device.
 *
 * A channel has a communicator and a stream of its own. A start waits on the device for what was
 * enqueued before it; a wait lets what is enqueued next wait on the device for its end; the host
 * never stops for either. It notices what goes wrong at the end of a list: there, and wherever else
 * it waits for the device, colls_health() is asked. */
#ifndef RUN_EXEC_LIBRARY_H
#define RUN_EXEC_LIBRARY_H

#include "comm/comm.h"
#include "plan/plan.h"

typedef struct colls colls; /* opaque */

/* The device as an executor has opened it. */
typedef struct colls_device {
    const weft_device_table *table;
    weft_device *device;
    weft_stream *compute;
    char *base; /* the arena's */
} colls_device;

/* Open a communicator for each channel of a coll transport that `rank` belongs to. NULL where the
 * plan has none. [setup] [collective] */
weft_status colls_create(const plan *p, job *j, uint32_t rank, const colls_device *d,
                         double deadline, colls **out);

/* Gives up what is in flight if `failed`, on a thread that is left behind when it hangs. NULL
 * allowed. [setup] */
void colls_destroy(colls *c, int failed);

/* Does a library carry this collective? */
int colls_has(const colls *c, uint32_t number);

/* Enqueue it, from and to these arena offsets. Starts that follow one another are one group, which
 * begins with the first and is launched with the last. [compute] */
weft_status colls_start(colls *c, uint32_t number, uint64_t from, uint64_t to, int first, int last);
weft_status colls_wait(colls *c, uint32_t number); /* [compute] */
uint64_t colls_sent(const colls *c);               /* payload bytes so far; NULL allowed [any] */
weft_status colls_health(colls *c);                /* NULL allowed [compute] */

#endif
