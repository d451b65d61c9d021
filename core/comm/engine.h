/* comm/engine.h: the progress engine: links, channels and operations, and their locking.
 *
 * Two threads use a link: the compute thread, which walks the lists (comm_start,
 * comm_wait), and the link's progress thread, which moves bytes while the first one computes. The
 * mutex `progress_lock` protects the link, its channels and the running state of its operations.
 * comm_start() never waits for it: it submits the operation through a single-producer
 * single-consumer ring. */
#ifndef COMM_ENGINE_H
#define COMM_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "comm/kernels/code.h"
#include "comm/kernels/reduce.h"
#include "host/call.h"
#include "schedule/program.h"

typedef struct comm_link comm_link;

#define COMM_HOST 64u /* bytes of the name of a host */

/* One direction of a connection of a link with checksums (checked.c). A step with bytes is a row of
 * messages of the link, its chunks and a trailer with their checksum. */
typedef struct comm_checked {
    uint64_t post_at, done_at; /* bytes of the step that is being posted; completed */
    uint64_t trailers_posted, trailers_done;
    uint64_t in_flight; /* bytes of chunks that are posted and not completed */
    uint32_t crc;       /* of the bytes of the step so far */
    uint32_t *trailer;  /* ring */
} comm_checked;

/* One direction of a connection: messages of the link so far. */
typedef struct comm_flow {
    uint64_t posted, done;
    comm_checked *checked; /* NULL: without checksums */
} comm_flow;

/* A connection of a channel. */
typedef struct comm_wire {
    weft_conn *conn;
    comm_flow flow[2]; /* [sending] */
} comm_wire;

/* A staged operation (staging.c), or one that the device executes (import_peer.c): the latter has
 * one fetch, when all is done, and one store, when it may begin. A flag holds the number of the
 * last start that raised it. */
typedef struct comm_staged {
    uint32_t fetches, stores, first_fetch, first_store; /* steps */
    uint32_t seen;                                      /* fetches of this start known to be done */
    uint32_t *gate, *fetched, *stored;                  /* [fetches], [stores] */
    weft_event *done;
} comm_staged;

/* A reduction executed by the device. */
typedef struct comm_sum {
    uint64_t count;
    uint32_t ranks, dtype, redop;
    weft_prepared *prepared;
} comm_sum;

struct comm_channel {
    comm_link *link;
    weft_stream *stores; /* of the stores of staged operations */
    const char *name;
    uint32_t *ranks; /* [n] job ranks in group order */
    uint32_t n, me;
    comm_wire *wire;    /* [n]; conn NULL where no operation needs one */
    comm_op *active;    /* the operation in progress */
    uint64_t who, what; /* digests: of name and ranks, of the operations */
};

typedef struct comm_lane_state {
    uint32_t send_posted, send_done, recv_posted, recv_done;
} comm_lane_state;

/* When what could not be posted is tried again. */
#define COMM_POST 1      /* in the next round, or after a completion */
#define COMM_POST_MORE 2 /* in the next round: there is more, and nothing to wait for */

/* How operations reach their memory: chosen in comm_add_op(), and not asked in a step. */
typedef struct comm_op_kind {
    /* Whether links and peers can access the buffers of a start. [compute] */
    weft_status (*check)(const comm_op *op, const char *in, const char *out, const char *scratch);
    weft_status (*start)(comm_op *op);                 /* its buffers are in `base` [compute] */
    weft_status (*advance)(comm_op *op, int *moved);   /* [progress] */
    weft_status (*run)(comm_op *op, uint32_t step);    /* neither send nor receive [progress] */
    weft_status (*wait)(comm_op *op, double deadline); /* [compute] */
    bool on_device; /* the device orders it, and cannot wake a thread that sleeps in a link */
} comm_op_kind;

extern const comm_op_kind comm_kind_link;     /* op.c: links access the memory */
extern const comm_op_kind comm_kind_mapped;   /* op.c: and the host that of peers */
extern const comm_op_kind comm_kind_staged;   /* staging.c: links access a mirror of it */
extern const comm_op_kind comm_kind_imported; /* import_peer.c: devices access that of peers */

struct comm_op {
    comm_channel *channel;
    const comm_op_kind *kind;
    const sched_schedule *schedule;
    const char *name;
    sched_program program;
    comm_reduce_kernel kernel; /* NULL without reductions */
    const comm_code_set *code; /* of compressed sums */
    const float *times;        /* scale of the residual; NULL: 1 */
    uint32_t redop, size;
    uint64_t in_bytes, out_bytes, scratch_bytes;
    uint64_t shift; /* in place: byte offset of the smaller side in the larger */
    int shared;     /* in place: both sides are the same memory at this rank */

    uint32_t started; /* starts so far; used by the compute thread */
    atomic_uint finished;
    comm_staged *staged; /* kinds on the device */
    weft_prepared *sum;  /* imported: its reduction; one of world->sums */

    /* state of one start, protected by the progress lock */
    char *base[5];               /* IN, OUT, SCRATCH, OFFSETS, RESIDUAL */
    sched_buffer_offsets *where; /* [n]; base[SCHED_OFFSETS]; imported: of comm_info */
    uint32_t *need, *need0;      /* [steps] */
    uint32_t *ready;             /* [moves] steps to execute here, in the order they became ready */
    uint32_t ready_head, ready_tail, left;
    comm_lane_state *lane; /* [lanes] */
    int dirty;             /* sends or receives may be postable: COMM_... */
    uint64_t began, ended; /* clock_ticks(); comm_times() converts */
    comm_op *next;         /* next in the link's queue of operations to begin */
};

struct comm_link {
    comm_world *world;
    const host_component *component;
    const weft_link_table *table;
    weft_link *link;
    weft_region *region; /* the arena, where the link registers or maps */
    char **mapped;       /* [job ranks] peers' arenas as mapped here; NULL: not mapped */
    uint64_t *mapped_bytes;
    unsigned char *imports;  /* [job ranks] whether the devices import each other's arenas */
    bool checked;            /* messages have checksums */
    weft_region *trailers;   /* memory of all trailers, where the link registers */
    char (*host)[COMM_HOST]; /* [job ranks] of peers of a checked link */
    VEC(comm_channel *) channels;
    VEC(comm_op *) ops;

    /* submitted by comm_start(): [mask + 1] */
    comm_op **handed;
    uint32_t mask;
    atomic_uint handed_in, handed_out;
    uint32_t started; /* operations; used by the compute thread */
    atomic_uint finished;
    _Atomic uint64_t sent; /* bytes */

    pthread_mutex_t progress_lock;
    comm_op *waiting, **waiting_end; /* in start order */
    comm_op **active;                /* [number of channels] */
    uint32_t actives;
    const void **from; /* addresses for the widest step */
    void **to;
    uint64_t no_yield_ns; /* of base/time/yield.h, for its waits */

    pthread_t progress_thread;
    int has_progress_thread;
    struct host_call_site *site; /* of the progress thread's calls (host/call.h) */
    pthread_mutex_t park;
    pthread_cond_t unpark;
    atomic_int kicked, parked, stop;
    atomic_int claimed; /* the compute thread wants the progress lock */
    atomic_int asleep;  /* the holder of the progress lock sleeps in the link's wait() */
};

struct comm_world {
    job *job;
    job_identity who;
    comm_arena arena;
    VEC(comm_link *) links;
    pool pool;
    VEC(comm_op *) on_device; /* operations of such kinds */
    int connected;
    int oversubscribed;   /* more ranks than cores here: spinning would only delay other ranks */
    weft_stream *fetches; /* of the fetches of staged operations */
    weft_event *ready;
    VEC(comm_sum) sums;           /* of imported operations */
    uint64_t base_ticks, base_ns; /* one moment on both clocks */
    atomic_int failed;            /* a weft_status; the text below is valid once it is set */
    pthread_mutex_t failing;
    bool aborted; /* the links; under `failing` */
    err_record why;
};

/* Increments a counter that one thread writes and others may read. */
static inline void comm_count_one(atomic_uint *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* --- op.c: for kinds that add to it --- */

weft_status comm_op_check(const comm_op *op, const char *in, const char *out, const char *scratch);
weft_status comm_op_wait(comm_op *op, double deadline);

/* --- engine.c: holding the progress lock --- */

/* Begins submitted operations and moves what can be moved now. *moved: there was progress. */
weft_status comm_link_advance(comm_link *l, int *moved);
int comm_link_has_work(const comm_link *l);
void comm_op_prepare(comm_op *op); /* memory of a start; once, after its program is made [setup] */
void comm_link_prepare(comm_link *l); /* memory of all steps; after all operations were added */

weft_status comm_op_advance(comm_op *op, int *moved);
weft_status comm_op_run(comm_op *op, uint32_t step); /* on this rank's and on mapped memory */
void comm_op_complete(comm_op *op, uint32_t step);

/* Posts one message of the link. WEFT_BUSY: its queue is full. */
static inline weft_status comm_post(comm_op *op, uint32_t peer, int sending, void *at,
                                    uint64_t bytes, weft_region *region)
{
    const weft_link_table *table = op->channel->link->table;
    weft_conn *conn = op->channel->wire[peer].conn;
    return sending ? PLUGIN_POLL(table, send, conn, at, bytes, region, 0)
                   : PLUGIN_POLL(table, recv, conn, at, bytes, region, 0);
}

/* Is nothing posted to this peer, or from it, that the link has not finished? */
static inline bool comm_wire_is_idle(const comm_wire *w)
{
    return w->flow[0].posted == w->flow[0].done && w->flow[1].posted == w->flow[1].done;
}

/* --- checked.c: checksums of messages; for flows whose `checked` is set --- */

/* Memory of the trailers of all connections; after they were counted, before the link connects.
 * [setup] */
weft_status comm_checked_prepare(comm_link *l);
void comm_checked_free(comm_link *l); /* [setup] */

/* Posts the next message of a step. *whole: it was the last one of the step. WEFT_BUSY as a link
 * gives it. */
weft_status comm_checked_post(comm_op *op, uint32_t peer, const sched_step *s, int sending,
                              bool *whole);

/* The link has finished the next message of a step. *whole: it was the last one of the step.
 * WEFT_IO: the bytes that came are not those that were sent. */
weft_status comm_checked_complete(comm_op *op, uint32_t peer, const sched_step *s, int sending,
                                  bool *whole);

/* --- staging.c --- */

void comm_staging_add(comm_op *op); /* [setup] */
weft_status
comm_staging_prepare(comm_world *w); /* streams, events, flags; after all operations were added */
void comm_staging_give_up(comm_world *w); /* releases device work that waits for flags */

/* For kinds on the device: the gate of a start, its fetches, a store, the end. */
weft_status comm_staging_open(comm_op *op);                  /* [compute] */
weft_status comm_staging_advance(comm_op *op, int *moved);   /* [progress] */
void comm_staging_store(comm_op *op, uint32_t step);         /* [progress] */
weft_status comm_staging_wait(comm_op *op, double deadline); /* [compute] */

/* --- import_peer.c --- */

struct comm_info;
struct comm_fd_passing_socket;
/* Prepares the link's operations of this kind, sends this rank's arena to every rank that imports
 * it, and imports theirs. [setup] */
weft_status comm_import_peer_prepare(comm_link *l, const struct comm_fd_passing_socket *box,
                                     struct comm_info *const *infos, uint64_t deadline_ns);
void comm_import_peer_free(comm_world *w); /* after comm_staging_give_up() [setup] */

/* --- progress.c --- */

weft_status comm_progress_begin(comm_link *l);
void comm_progress_end(comm_link *l);
void comm_progress_kick(
    comm_link *l); /* there is work, and the compute thread is busy with other work */
void comm_link_claim(comm_link *l);
void comm_link_release(comm_link *l);

/* One idle moment of the holder of the progress lock: spins, yields or sleeps depending on the time
 * without progress; checks now and then whether another rank has failed. WEFT_BUSY: some time has
 * passed, so deadlines should be checked. */
typedef struct comm_idle {
    uint32_t spins;
    uint64_t since; /* clock_ns() of the first idle moment, 0: none yet */
} comm_idle;
weft_status comm_link_idle(comm_link *l, comm_idle *state, int walking, uint64_t deadline_ns);

/* --- failure.c --- */

/* What a peer or a wire has garbled is no fault of the request: WEFT_DATA, for which a program ends
 * with status 2, becomes WEFT_IO. */
weft_status comm_peer_status(weft_status st);

/* Keeps the calling thread's error record as the failure of this world, unless there is one; aborts
 * the links; returns the status of the recorded failure. */
weft_status comm_world_fail(comm_world *w, weft_status st);
weft_status comm_world_failed(comm_world *w); /* WEFT_OK, or the recorded failure again */

/* Put "NAME on channel C over L: " before the record. */
void comm_op_put_name(const comm_op *op);

/* A link's call failed under `op` with group rank `peer`: reports the job's root cause if there is
 * one. */
weft_status comm_op_fail(comm_op *op, uint32_t peer, weft_status st);

/* The same where the cause is known already. */
weft_status comm_op_fail_at_once(comm_op *op, uint32_t peer, weft_status st);
weft_status comm_op_timeout(comm_op *op, double seconds); /* a deadline has passed */

#endif
