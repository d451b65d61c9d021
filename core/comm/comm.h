/* comm/comm.h: executes schedules over any link, and owns the progress threads.
 *
 * Starting an operation never blocks. While the rank computes, the progress thread moves bytes; it
 * sleeps when nothing is in flight. Inside comm_wait() the waiting thread does so itself.
 * Operations of one channel complete in start order. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "host/host.h"
#include "job/job.h"
#include "schedule/schedule.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <weft/device.h>

typedef struct comm_world comm_world;     /* all links of this rank */
typedef struct comm_channel comm_channel; /* an ordered group of ranks over one link */
typedef struct comm_op comm_op; /* a prepared operation, which can be started any number of times */

/* Device streams for staging where links cannot access the memory. table NULL: not needed. */
typedef struct comm_staging {
    const weft_device_table *table;
    weft_device *device;
    weft_stream *compute; /* operations are ordered between earlier and later work on it */
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

/* abort() of every link that has not had it: a job that has failed calls this before it destroys
 * the world, also if no operation has failed here. The others know of the failure by then, or take
 * this for its cause. NULL allowed. [setup] */
void comm_world_abort(comm_world *w);

/* A link component, already opened by host_open(). */
typedef struct comm_part {
    const host_component *link;
    const weft_conf *conf;
} comm_part;

/* Adds a link; *index names it below. With a second transport (else intra.link is NULL) `intra` is
 * used between ranks with the same number in `machine` [job ranks], `inter` between the others
 * (bridge.h). `checked`: every message of the link gets a CRC32C, which its receiver compares: 4
 * bytes a message, which do not count in comm_bytes_sent(). All ranks do the same. No algorithm may
 * map peers' memory, which goes past messages, and the host must be able to read what is sent.
 * [setup] */
weft_status comm_add_link(comm_world *w, comm_part inter, comm_part intra, const uint32_t *machine,
                          bool checked, uint32_t *index);

/* Adds a channel over `ranks` (job ranks in group order, this one among them) on link `index`. All
 * of its ranks make the same calls in the same order; `name` appears in messages. [setup]
 * [collective] */
weft_status comm_add_channel(comm_world *w, uint32_t index, const char *name, const uint32_t *ranks,
                             uint32_t n, comm_channel **out);

/* Adds an operation of the channel; borrows the schedule of this rank in it, which outlives it.
 * `name` identifies it in errors ("all-reduce of grads block.3"). [setup] */
weft_status comm_add_op(comm_channel *c, const sched_schedule *s, const char *name, comm_op **out);

/* Memory for the operation's residual of s->residual bytes, 0 at first. The residual is
 * scaled by *times (NULL: 1), which is read during each start: 0 discards it. [setup] */
void comm_set_residual(comm_op *op, void *residual, const float *times);

/* The offsets in the device's arena that all starts of a staged operation will have: devices that
 * import each other's arenas need those of their peers beforehand. [setup] */
void comm_set_offsets(comm_op *op, uint64_t in, uint64_t out);

/* After all channels and operations were added: exchanges endpoint info, connects the pairs that
 * schedules use, registers and maps the arena where the link can. `deadline` seconds. [setup]
 * [collective] */
weft_status comm_connect(comm_world *w, const comm_arena *arena, double deadline);

/* Starts with these addresses (scratch of s->scratch bytes). Never blocks. `overlap`:
 * computation follows, so the progress thread is woken. [compute] */
weft_status comm_start(comm_op *op, const void *in, void *out, void *scratch, int overlap);

/* Whether the device, not the host, orders the operation. Then comm_start() may be called as soon
 * as the work it depends on is enqueued, and work enqueued after comm_wait() finds the result.
 * [any] */
int comm_is_staged(const comm_op *op);

/* Moves bytes until the last start has finished, or a rank fails (WEFT_PEER naming it), or
 * `deadline` seconds pass (WEFT_PEER naming the ranks still missing, the channel and the
 * operation). [compute] */
weft_status comm_wait(comm_op *op, double deadline);

/* After a broken connection: wait up to 2 s for the job to learn the root cause. Whether it has;
 * the error record is then the job's. The wait also ends when *failed is no longer WEFT_OK; NULL:
 * it does not. False at once for a job of one rank. [any] */
bool comm_cause_known(job *j, const atomic_int *failed);

/* Payload bytes sent by this rank so far. [any] */
uint64_t comm_bytes_sent(const comm_world *w);

/* Begin and end of the last start of `op`, clock_ns(); for traces. 0: not finished. [compute] */
void comm_times(const comm_op *op, uint64_t *began, uint64_t *ended);

#endif
