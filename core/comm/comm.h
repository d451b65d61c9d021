/* comm/comm.h: collectives over any link, and the thread that moves bytes.
 *
 * A collective is a *schedule*: a straight list of steps for one rank (send, receive, reduce, copy,
 * read a peer's memory), built by a pure function from (kind, type, count, ranks, rank, what the
 * link can do). The plan asks schedules for their scratch and bytes; tests run them against each
 * other without any transport; the engine walks them over a link. One algorithm, one file.
 *
 * The engine: starting an operation never blocks; whoever has time moves bytes. While the rank
 * computes that is the progress thread, which sleeps when nothing is in flight; inside comm_wait()
 * it is the waiting thread itself. Operations of one channel complete in the order they were
 * started. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "config/config.h"
#include "host/host.h"
#include "job/job.h"

#include <weft/coll.h>
#include <weft/device.h>
#include <weft/link.h>

/* --- schedules: pure, callable while planning --- */

/* Where the members of a group are. Equal on all of them, but for what is said of `me`. */
typedef struct comm_layout {
    uint32_t machines;
    const uint32_t *machine; /* [ranks] numbered from 0 in the order of first appearance */
    const uint32_t *order;   /* [ranks] place in its machine, 0 nearest to the network; or NULL */
    uint64_t near_caps;      /* of the link between members of one machine */
} comm_layout;

/* What sending costs, as measured: a message of b bytes arrives `latency` + b * `per_byte` seconds
 * after it was sent, and keeps its sender busy for `message` + b * `per_byte`; reading a byte to
 * reduce it takes `reduce`, one of a peer's memory that is mapped here `mapped`. near: between
 * members of one machine, far: between machines. */
typedef struct comm_speed {
    double latency, message, per_byte;
} comm_speed;
typedef struct comm_cost {
    comm_speed near, far;
    double reduce, mapped;
} comm_cost;

/* What the keys of [comm] and of [comm.TRANSPORT] say of it, near and far alike: 0 when they are
 * left out, and there is nothing to go by. WEFT_USAGE for half of them. [setup] */
weft_status comm_cost_read(const config *c, const char *transport, comm_cost *out, int *known);

/* How elements travel. Whatever is not COMM_PLAIN changes results (compress.c). */
#define COMM_PLAIN 0u
#define COMM_TO_FP16 1u
#define COMM_TO_BF16 2u
#define COMM_TO_INT8 3u
const char *comm_form_name(uint32_t compress); /* "none", "int8". [any] */

typedef struct comm_request {
    uint32_t kind, redop, dtype; /* weft/coll.h */
    uint64_t count;              /* elements, as weft/coll.h counts them */
    uint32_t ranks, me;          /* of the group */
    uint32_t root;
    uint32_t in_place;     /* in and out are the same place (see weft/coll.h) */
    uint64_t link_caps;    /* of the link that will carry it */
    const char *algorithm; /* one word: "auto", "ring", "halving", "direct", ... */
    uint64_t chunk;        /* bytes that long messages are cut into; 0: the algorithm's own */
    uint32_t compress;     /* COMM_PLAIN, ... */
    uint32_t feedback;     /* compressed: what it takes away is kept for the next start */
    uint32_t staged; /* in and out are where no link reaches, scratch is host memory (stage.c); or,
                      * over a link that maps, devices attach each other's (attach.c) */
    const comm_layout *layout; /* NULL: all on one machine, or nobody knows. Borrowed */
    const comm_cost *cost;     /* what `auto` goes by; NULL: thresholds of select.c. Borrowed */
} comm_request;

/* [comm] algorithm, a word or rules by collective and size (rules.c): WEFT_USAGE with the place of
 * the key and what is wrong in it (without a config, in the text `rules`); and the algorithm that
 * it names for this request, "auto" where it names none. A single word is returned as it is. [any]
 */
weft_status comm_rules_check(const config *c, const char *key, const char *rules);
const char *comm_rule(const char *rules, const comm_request *r);

int comm_may_map(const char *algorithm); /* is it one that maps peers' memory, or auto? [any] */

typedef struct comm_schedule comm_schedule; /* opaque */

/* WEFT_USAGE when the named algorithm cannot do this request (and says which can). Owned by the
 * caller. [plan] */
weft_status comm_schedule_make(const comm_request *r, comm_schedule **out);
void comm_schedule_free(comm_schedule *s);
uint64_t comm_schedule_scratch(const comm_schedule *s); /* bytes of scratch, aligned to 64 */
uint64_t comm_schedule_kept(const comm_schedule *s);    /* bytes kept between starts, likewise */
uint64_t comm_schedule_sent(const comm_schedule *s); /* payload bytes this rank sends or writes */
uint32_t comm_schedule_messages(const comm_schedule *s);
const char *comm_schedule_algorithm(const comm_schedule *s);

/* --- run time --- */

typedef struct comm_world comm_world;     /* all links of this rank */
typedef struct comm_channel comm_channel; /* an ordered group of ranks over one link */
typedef struct comm_op comm_op;           /* one prepared operation, started any number of times */

/* How to reach memory that no link can touch: by streams of the device. table NULL: no need. */
typedef struct comm_stage {
    const weft_device_table *table;
    weft_device *device;
    weft_stream *compute; /* operations begin after what is enqueued here, and go before the rest */
    char *base;           /* the device's arena */
    uint64_t bytes;
    int32_t fd; /* its descriptor, for peers' import_peer(); -1 */
} comm_stage;

typedef struct comm_arena {
    void *base;
    uint64_t bytes;
    int32_t fd;           /* maps the same bytes, or -1 */
    uint32_t device_caps; /* device.h */
    comm_stage stage;
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
uint64_t comm_pair_caps(uint64_t near_caps, uint64_t far_caps); /* of the link that this makes */

/* A channel over `ranks` (job ranks in group order) on link `index`. The same calls in the same
 * order on all of its ranks; `name` appears in messages. [setup] [collective] */
weft_status comm_add_channel(comm_world *w, uint32_t index, const char *name, const uint32_t *ranks,
                             uint32_t n, comm_channel **out);

/* An operation of the channel; borrows the schedule, which outlives it. `name` is what failures are
 * called by ("all-reduce of grads block.3"). [setup] */
weft_status comm_add_op(comm_channel *c, const comm_schedule *s, const char *name, comm_op **out);

/* Where the operation keeps comm_schedule_kept() bytes from one start to the next, 0 at first. What
 * was kept counts *times times (NULL: once), read at each start's steps: 0 forgets it. [setup] */
void comm_keep(comm_op *op, void *kept, const float *times);

/* The offsets in the device's arena that all starts of a staged operation will have: where devices
 * attach each other's arenas, peers are told beforehand. [setup] */
void comm_fix(comm_op *op, uint64_t in, uint64_t out);

/* After all channels and operations are there: exchange addresses, connect the pairs that schedules
 * use, register and map the arena where the link can. `deadline` seconds. [setup] [collective] */
weft_status comm_connect(comm_world *w, const comm_arena *arena, double deadline);

/* Start with these addresses (scratch of comm_schedule_scratch() bytes). Never blocks. `overlap`
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
