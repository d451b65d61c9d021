/* comm/engine.h: the run-time side: links, channels and operations, and who may touch them when.
 *
 * Two threads meet at a link: the one that walks the lists (comm_start, comm_test, comm_wait) and
 * the link's mover, which moves bytes while the first one computes. Whoever holds the `baton` is
 * the only one in the link, its channels and the running state of its operations. comm_start()
 * never waits for the baton: it hands the operation over in a ring of one producer and one
 * consumer. */
#ifndef COMM_ENGINE_H
#define COMM_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "comm/kernels/code.h"
#include "comm/kernels/reduce.h"
#include "schedule/program.h"

typedef struct comm_link comm_link;

/* A connection of a channel: what the link has counted so far. */
typedef struct comm_wire {
    weft_conn *conn;
    uint64_t sent, received;
} comm_wire;

/* An operation that goes through host memory (stage.c), or that the device does (attach.c): that
 * has one fetch, when all is done, and one store, when it may begin. Flags hold the last start that
 * they were raised for. */
typedef struct comm_staged {
    uint32_t fetches, stores, first_fetch, first_store; /* steps */
    uint32_t seen;                     /* fetches of this start that are known to be done */
    uint32_t *gate, *fetched, *stored; /* [fetches], [stores] */
    weft_event *done;
} comm_staged;

/* A reduction by the device. */
typedef struct comm_sum {
    uint64_t count;
    uint32_t ranks, dtype, redop;
    weft_prepared *prepared;
} comm_sum;

struct comm_channel {
    comm_link *link;
    weft_stream *stores; /* of staged operations */
    const char *name;
    uint32_t *ranks; /* [n] job ranks in group order */
    uint32_t n, me;
    comm_wire *wire;    /* [n]; conn NULL where no operation needs one */
    comm_op *active;    /* the one that is under way */
    uint64_t who, what; /* digests: of name and ranks, of the operations */
};

typedef struct comm_lane_state {
    uint32_t send_posted, send_done, recv_posted, recv_done;
} comm_lane_state;

struct comm_op {
    comm_channel *channel;
    const sched_schedule *schedule;
    const char *name;
    sched_program program;
    comm_reduce_kernel kernel; /* NULL where nothing is reduced */
    const comm_code_set *code; /* of compressed sums */
    const float *times;        /* by which what was kept counts; NULL: 1 */
    uint32_t redop, size;
    uint64_t in_bytes, out_bytes, scratch_bytes;
    uint64_t shift; /* in place: where the smaller side begins in the larger */
    int shared;     /* in place: both sides are one memory at this rank */

    uint32_t started; /* starts so far; the walking thread's */
    atomic_uint finished;
    comm_staged *staged; /* NULL: links touch its memory */
    int attached;        /* the device does it */
    weft_prepared *sum;  /* ... and this is its reduction; one of world->sums */

    /* one start, under the baton */
    char *base[5];               /* IN, OUT, SCRATCH, PLACES, KEPT */
    sched_buffer_offsets *where; /* [n]; base[PLACES], but of the device's: as the cards say */
    uint32_t *need, *need0;      /* [steps] */
    uint32_t *ready;             /* [moves] steps to do here, in the order they became ready */
    uint32_t ready_head, ready_tail, left;
    comm_lane_state *lane; /* [lanes] */
    int dirty;             /* something may be posted */
    uint64_t began, ended; /* clock_ticks(); comm_times() converts */
    comm_op *next;         /* in the link's line of operations that wait to begin */
};

struct comm_link {
    comm_world *world;
    const component *component;
    const weft_link_table *table;
    weft_link *link;
    weft_region *region; /* the arena, where the link registers or maps */
    char **mapped;       /* [job ranks] peers' arenas here; NULL where not mapped */
    uint64_t *mapped_bytes;
    unsigned char *attaches; /* [job ranks] does the device map its arena, and that rank's mine? */
    VEC(comm_channel *) channels;
    VEC(comm_op *) ops;

    /* handed over by comm_start(): [mask + 1] */
    comm_op **handed;
    uint32_t mask;
    atomic_uint handed_in, handed_out;
    uint32_t started; /* operations, by the walking thread */
    atomic_uint finished;
    _Atomic uint64_t sent; /* bytes */

    pthread_mutex_t baton;
    comm_op *waiting, **waiting_end; /* in start order */
    comm_op **active;                /* [number of channels] */
    uint32_t actives;
    const void **from; /* room for the addresses of the widest step */
    void **to;

    pthread_t mover;
    int has_mover;
    pthread_mutex_t park;
    pthread_cond_t unpark;
    atomic_int kicked, parked, stop;
    atomic_int claimed; /* the walking thread wants the baton */
    atomic_int asleep;  /* whoever has the baton sleeps in the link's wait() */
};

struct comm_world {
    job *job;
    job_identity who;
    comm_arena arena;
    VEC(comm_link *) links;
    pool pool;
    int connected;
    int crowded;          /* more ranks than cores here: spinning only keeps others from running */
    weft_stream *fetches; /* of staged operations */
    weft_event *ready;
    VEC(comm_sum) sums;           /* of attached ones */
    uint64_t base_ticks, base_ns; /* one moment, on both clocks */
    atomic_int failed;            /* a weft_status; the text below stands once it is set */
    pthread_mutex_t failing;
    char text[1024];
};

/* One more, where a single thread writes and others may read. */
static inline void comm_count_one(atomic_uint *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* --- engine.c: under the baton --- */

/* Begin what has been handed over, and move what can be moved now. *moved: something happened. */
weft_status comm_link_advance(comm_link *l, int *moved);
int comm_link_has_work(const comm_link *l);
void comm_op_prepare(comm_op *op); /* memory of a start; once, after its program is made [setup] */

/* --- staging.c --- */

void comm_staging_add(comm_op *op); /* [setup] */
weft_status
comm_staging_prepare(comm_world *w); /* streams, events and flags, once all operations are there */
void comm_staging_mirror(comm_op *op, char *scratch);
weft_status comm_staging_start(comm_op *op, const void *in, void *out); /* the walking thread */
weft_status comm_staging_finish(comm_op *op);                           /* likewise */
int comm_staging_is_open(const comm_op *op);                            /* may steps run? */
uint32_t comm_staging_fetched(const comm_op *op); /* how many fetches are done */
void comm_staging_store(comm_op *op, uint32_t step);
void comm_staging_give_up(comm_world *w); /* lets the device finish what waits for flags */

/* --- import_peer.c --- */

weft_status comm_import_peer_prepare(comm_op *op);                    /* [setup] */
weft_status comm_import_peer_start(comm_op *op, weft_stream *stream); /* the work, enqueued there */
void comm_import_peer_free(comm_world *w); /* after comm_staging_give_up() [setup] */

/* Before the work may begin: have all come with the buffers that it was given? Else *peer has not.
 */
weft_status comm_import_peer_confirm(comm_op *op, uint32_t *peer);

/* --- progress.c --- */

weft_status comm_progress_begin(comm_link *l);
void comm_progress_end(comm_link *l);
void comm_progress_kick(
    comm_link *l); /* there is work, and the walking thread has other things to do */
void comm_link_claim(comm_link *l);
void comm_link_release(comm_link *l);

/* One idle moment of whoever holds the baton: spin, yield or sleep by how long nothing has moved;
 * and now and then ask whether another rank has failed. WEFT_BUSY: some time has passed, so that
 * deadlines are worth a look. */
typedef struct comm_idle {
    uint32_t spins;
    uint64_t since; /* clock_ns() of the first idle moment, 0: none yet */
} comm_idle;
weft_status comm_link_idle(comm_link *l, comm_idle *state, int walking, uint64_t deadline_ns);

/* --- failure.c --- */

/* Keep the record of the calling thread as the failure of this world, unless one stands; abort the
 * links; return the status that stands. */
weft_status comm_world_fail(comm_world *w, weft_status st);
weft_status comm_world_failed(comm_world *w); /* WEFT_OK, or the record again */

/* A link's call failed under `op` with group rank `peer`: prefer what the job knows. */
weft_status comm_op_fail(comm_op *op, uint32_t peer, weft_status st);
weft_status comm_op_timeout(comm_op *op, double seconds); /* a deadline has passed */

#endif
