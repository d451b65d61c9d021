/* comm/comm.h: runs schedules over any link, and has the thread that moves bytes.
 *
 * Starting an operation never blocks; whoever has time moves bytes. While the rank computes that is
 * the progress thread, which sleeps when nothing is in flight; inside comm_wait() it is the waiting
 * thread itself. Operations of one channel complete in the order they were started. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "host/host.h"
#include "job/job.h"
#include "schedule/schedule.h"

#include <weft/device.h>

typedef struct comm_world comm_world;     /* all links of this rank */
typedef struct comm_channel comm_channel; /* an ordered group of ranks over one link */
typedef struct comm_op comm_op;           /* one prepared operation, started any number of times */

/* How to reach memory that no link can touch: by streams of the device. table NULL: no need. */
typedef struct comm_staging {
    const weft_device_table *table;
    weft_device *device;
    weft_stream *compute; /* operations begin after what is enqueued here, and go before the rest */
    char *base;           /* the device's arena */
    uint64_t bytes;
    int32_t fd; /* its descriptor, for peers' import_peer(); -1 */
} comm_staging;

typedef struct comm_arena {
    void *base;
    uint64_t bytes;
    int32_t fd;           /* maps the same bytes, or -1 */
    uint32_t device_caps; /* device.h */
    comm_staging stage;
} comm_arena;

/* `job` may be NULL for one rank. [setup] */
weft_status comm_world_create(job *j, const job_identity *who, comm_world **out);
void comm_world_destroy(comm_world *w); /* stops the threads, closes links; NULL allowed */

/* Make a link component (already opened by host_open) usable; `index` names it below. [setup] */
weft_status comm_add_link(comm_world *w, const component *link, const weft_conf *conf,
                          uint32_t *index);

/* The same with two transports: `near` between ranks with the same number in `machine` [job ranks],
 * `far` between the others (bridge.h). [setup] */
typedef struct comm_part {
    const component *link;
    const weft_conf *conf;
} comm_part;
weft_status comm_add_pair(comm_world *w, const comm_part *near, const comm_part *far,
                          const uint32_t *machine, uint32_t *index);

/* A channel over `ranks` (job ranks in group order) on link `index`. The same calls in the same
 * order on all of its ranks; `name` appears in messages. [setup] [collective] */
weft_status comm_add_channel(comm_world *w, uint32_t index, const char *name, const uint32_t *ranks,
                             uint32_t n, comm_channel **out);

/* An operation of the channel; borrows the schedule, which outlives it. `name` is what failures are
 * called by ("all-reduce of grads block.3"). [setup] */
weft_status comm_add_op(comm_channel *c, const sched_schedule *s, const char *name, comm_op **out);

/* Where the operation keeps sched_residual_bytes() bytes from one start to the next, 0 at first.
 * What was kept counts *times times (NULL: once), read at each start's steps: 0 forgets it. [setup]
 */
void comm_set_residual(comm_op *op, void *kept, const float *times);

/* The offsets in the device's arena that all starts of a staged operation will have: where devices
 * attach each other's arenas, peers are told beforehand. [setup] */
void comm_set_offsets(comm_op *op, uint64_t in, uint64_t out);

/* After all channels and operations are there: exchange addresses, connect the pairs that schedules
 * use, register and map the arena where the link can. `deadline` seconds. [setup] [collective] */
weft_status comm_connect(comm_world *w, const comm_arena *arena, double deadline);

/* Start with these addresses (scratch of sched_scratch_bytes() bytes). Never blocks. `overlap`
 * says that computation follows, so that the progress thread is woken. [compute] */
weft_status comm_start(comm_op *op, const void *in, void *out, void *scratch, int overlap);

/* Is it handed over by the device, not by the host? Then comm_start() need not be called later than
 * what it depends on is enqueued, and after comm_wait() what is enqueued next finds the result.
 * [any] */
int comm_is_staged(const comm_op *op);

/* WEFT_OK when the last start has finished. [compute] */
weft_status comm_test(comm_op *op);

/* Move bytes until the last start has finished, or a rank fails (WEFT_PEER naming it), or
 * `deadline` seconds pass (WEFT_PEER naming the ranks that it still waits for, the channel and the
 * operation). [compute] */
weft_status comm_wait(comm_op *op, double deadline);

/* Payload bytes sent by this rank so far. [any] */
uint64_t comm_bytes_sent(const comm_world *w);

/* When the last start of `op` began and ended, clock_ns(); for traces. 0: not yet. [compute] */
void comm_times(const comm_op *op, uint64_t *began, uint64_t *ended);

#endif
