/* coll.c: MPI's nonblocking collectives as a library of collectives on host memory.
 *
 * call() writes operations into the lane of the communicator and posts them, test() advances the
 * lane and counts groups by the mark of the oldest unfinished operation. The MPI thread makes the
 * communicator, since that waits for all members.
 *
 * MPI adds in an order of its own, so losses are near those of weft's algorithms and not equal. */
#include "lane.h"
#include "parts.h"

#include <limits.h>
#include <stdlib.h>
#include <weft/host.h>

enum { OPERATIONS = 8192, CLOSE_SECONDS = 30, SCORE = 4 };
enum { OPENING, OPEN, FAILED };
#define PIECE ((uint64_t)1 << 30) /* elements of an operation */

struct weft_comm {
    const weft_host *host;
    mpi_module *module;
    uint32_t rank, ranks; /* in the group */
    int *members;         /* ranks of the job */
    mpi_lane lane;
    mpi_job job;
    atomic_int state, aborted;
    int error;
    uint64_t started; /* groups */
    int32_t in_group;
    weft_comm *next; /* with operations in the open group */
};

/* Of the process: made by the MPI thread with the first communicator, never freed. */
static MPI_Op op16[2][3];
static bool has_op16;

/* --- set-up --- */

static weft_status probe(void *module, const weft_conf *conf, uint32_t caps, int32_t *score)
{
    const mpi_module *m = module;
    *score = mpi_usable(m->host, conf, caps) == WEFT_OK ? SCORE : 0;
    return WEFT_OK;
}

/* MPI tells communicators apart itself. */
static weft_status make_id(void *module, const weft_conf *conf, void *out, uint64_t *bytes)
{
    (void)module, (void)conf;
    *(char *)out = 'm';
    *bytes = 1;
    return WEFT_OK;
}

static int make_operators(const mpi_api *m)
{
    int error = MPI_SUCCESS;
    for (int type = 0; type < 2 && !has_op16; type++)
        for (uint32_t op = WEFT_SUM; op <= WEFT_MIN && error == MPI_SUCCESS; op++)
            error = mpi_make_op16(m, type, op, &op16[type][op - WEFT_SUM]);
    has_op16 = error == MPI_SUCCESS;
    return error;
}

static int make_communicator(const mpi_api *m, weft_comm *c)
{
    MPI_Group all, some;
    int error = m->Comm_group(mpi_everyone(), &all);
    if (error != MPI_SUCCESS)
        return error;
    error = m->Group_incl(all, (int)c->ranks, c->members, &some);
    if (error == MPI_SUCCESS) {
        error = m->Comm_create_group(mpi_everyone(), some, 0, &c->lane.comm);
        m->Group_free(&some);
    }
    m->Group_free(&all);
    return error != MPI_SUCCESS ? error : m->Comm_set_errhandler(c->lane.comm, m->errors_return);
}

/* On the MPI thread. */
static void open_on_thread(void *arg)
{
    weft_comm *c = arg;
    const mpi_api *m = mpi_library();
    if (!mpi_is_up())
        return;
    c->error = make_operators(m);
    if (c->error == MPI_SUCCESS)
        c->error = make_communicator(m, c);
    if (c->error == MPI_SUCCESS && mpi_granted() < MPI_THREAD_SERIALIZED)
        mpi_add_poller(&c->lane.poller);
    atomic_store(&c->state, c->error == MPI_SUCCESS ? OPEN : FAILED);
}

static void close_on_thread(void *arg)
{
    weft_comm *c = arg;
    if (atomic_load(&c->state) != OPEN)
        return;
    mpi_remove_poller(&c->lane.poller);
    mpi_library()->Comm_free(&c->lane.comm);
}

static void free_comm(weft_comm *c)
{
    mpi_lane_free(&c->lane);
    free(c->members);
    free(c);
}

/* After a failure MPI may still use the requests, so the memory stays: the process ends soon. */
static void close_comm(weft_comm *c)
{
    if (!c || atomic_load(&c->aborted))
        return;
    mpi_job *job = &c->job;
    if (!atomic_load(&job->done)) { /* it was never opened: the job of open() is still queued */
        mpi_give_up();
        return;
    }
    job->run = close_on_thread;
    if (mpi_ask_and_wait(job, CLOSE_SECONDS))
        free_comm(c);
}

static weft_status make_comm(mpi_module *m, const weft_coll_args *a, weft_comm **out)
{
    const weft_host *h = m->host;
    weft_status st = WEFT_OK;
    weft_comm *c = mpi_new(h, sizeof *c, &st);
    if (!c)
        return st;
    c->members = mpi_new(h, a->ranks * sizeof *c->members, &st);
    if (st == WEFT_OK)
        st = mpi_lane_make(&c->lane, h, OPERATIONS);
    if (st != WEFT_OK) {
        free_comm(c);
        return st;
    }
    for (uint32_t r = 0; r < a->ranks; r++)
        c->members[r] = (int)a->members[r];
    c->host = h;
    c->module = m;
    c->rank = a->rank;
    c->ranks = a->ranks;
    c->lane.me = (int)a->rank;
    c->lane.op16[0] = op16[0];
    c->lane.op16[1] = op16[1];
    c->job = (mpi_job){.run = open_on_thread, .arg = c};
    *out = c;
    return WEFT_OK;
}

static weft_status open_comm(void *module, const weft_coll_args *a, weft_comm **out)
{
    mpi_module *m = module;
    const weft_host *h = m->host;
    weft_status st = weft_check_args(h, a, sizeof *a, 0);
    if (st == WEFT_OK && (a->parent || a->stream))
        st = mpi_fail(h, WEFT_UNSUPPORTED, "mpi has neither streams nor parents");
    if (st == WEFT_OK)
        st = mpi_world_begin(h, a->conf);
    weft_comm *c = NULL;
    if (st == WEFT_OK)
        st = make_comm(m, a, &c);
    if (st != WEFT_OK)
        return st;
    mpi_ask(&c->job);
    *out = c;
    return WEFT_OK;
}

static weft_status ready(weft_comm *c)
{
    const weft_host *h = c->host;
    const weft_host_kv *kv = h->iface(h->ctx, "weft.host.kv/1");
    const weft_status st = mpi_world_ready(h, (uint32_t)c->members[c->rank], kv ? kv->ranks : 0);
    const int state = atomic_load(&c->state);
    if (st != WEFT_OK)
        return st;
    if (state == FAILED)
        return mpi_says(h, WEFT_IO, "MPI_Comm_create_group() failed", c->error);
    return state == OPEN ? WEFT_OK
                         : mpi_fail(h, WEFT_BUSY,
                                    "MPI_Comm_create_group() has not returned: it waits until all "
                                    "ranks of the group have called it");
}

/* --- operations --- */

static weft_status begin(void *module, uint32_t flags)
{
    mpi_module *m = module;
    m->group = NULL;
    return flags ? weft_refuse_unknown(m->host) : WEFT_OK;
}

static weft_status end(void *module, uint32_t flags)
{
    mpi_module *m = module;
    for (weft_comm *c = m->group; c; c = c->next) {
        c->started++;
        c->in_group = 0;
    }
    m->group = NULL;
    return flags ? weft_refuse_unknown(m->host) : WEFT_OK;
}

static bool reduces(uint32_t kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

static weft_status supports(void *module, uint32_t kind, uint32_t redop, uint32_t dtype)
{
    const mpi_module *m = module;
    if (kind < WEFT_ALL_REDUCE || kind > WEFT_RECV || !weft_dtype_size(dtype) ||
        (reduces(kind) && (redop < WEFT_SUM || redop > WEFT_MIN)))
        return mpi_fail(m->host, WEFT_UNSUPPORTED,
                        "mpi has no collective of kind %u with operator %u for element type %u",
                        kind, redop, dtype);
    return WEFT_OK;
}

/* Kinds whose elements are independent go in pieces, and all their pieces together. */
static uint32_t cut(weft_comm *c, const weft_coll_call *a, mpi_piece like, uint64_t count,
                    uint32_t at)
{
    const uint64_t size = weft_dtype_size(a->dtype);
    uint64_t from = 0;
    do {
        const uint64_t n = count - from < PIECE ? count - from : PIECE;
        mpi_piece *p = mpi_lane_next(&c->lane, at);
        if (!p)
            return 0;
        *p = like;
        p->count = (int)n;
        p->in = like.in ? (const char *)like.in + from * size : NULL;
        p->out = like.out ? (char *)like.out + from * size : NULL;
        from += n;
        at++;
    } while (from < count);
    return at;
}

/* In place, MPI's own reduce-scatter takes the input from the front of the output; here the output
 * is inside of the input. So each part is reduced to its rank. */
static uint32_t cut_reduce_scatter(weft_comm *c, const weft_coll_call *a, mpi_piece like)
{
    const uint64_t part = a->count / c->ranks, bytes = part * weft_dtype_size(a->dtype);
    uint32_t at = 0;
    for (uint32_t r = 0; r < c->ranks && (at || !r); r++) {
        like.kind = WEFT_REDUCE;
        like.root = (int)r;
        like.in = (const char *)a->in + r * bytes;
        like.out = r == c->rank ? a->out : NULL;
        at = cut(c, a, like, part, at);
    }
    return at;
}

/* Write the operations of a call into the lane; their number, 0: no room. */
static uint32_t lay_out(weft_comm *c, const weft_coll_call *a)
{
    const mpi_piece like = {.kind = a->kind,
                            .redop = a->redop,
                            .dtype = a->dtype,
                            .root = (int)a->root,
                            .in = a->in,
                            .out = a->out,
                            .mark = c->started + 1};
    const uint64_t part = a->count / c->ranks;
    const char *own = (const char *)a->in + c->rank * part * weft_dtype_size(a->dtype);
    switch (a->kind) {
    case WEFT_REDUCE_SCATTER:
        if (a->out == own)
            return cut_reduce_scatter(c, a, like);
        break;
    case WEFT_ALL_GATHER:
    case WEFT_GATHER:
    case WEFT_SCATTER:
    case WEFT_ALL_TO_ALL: break;
    default: return cut(c, a, like, a->count, 0);
    }
    mpi_piece *p = mpi_lane_next(&c->lane, 0);
    if (!p)
        return 0;
    *p = like;
    p->count = (int)part;
    return 1;
}

static bool is_too_long(const weft_comm *c, const weft_coll_call *a)
{
    const bool parts = a->kind == WEFT_REDUCE_SCATTER || a->kind == WEFT_ALL_GATHER ||
                       a->kind == WEFT_GATHER || a->kind == WEFT_SCATTER ||
                       a->kind == WEFT_ALL_TO_ALL;
    return parts && a->count / c->ranks > INT_MAX;
}

static weft_status call(weft_comm *c, const weft_coll_call *a)
{
    const weft_host *h = c->host;
    weft_status st = weft_check_args(h, a, sizeof *a, 0);
    if (st == WEFT_OK)
        st = supports(c->module, a->kind, a->redop, a->dtype);
    if (st == WEFT_OK && is_too_long(c, a))
        st = mpi_fail(h, WEFT_UNSUPPORTED,
                      "MPI counts at most %d elements for a rank, and %llu are asked for: make "
                      "train.bucket_mb smaller",
                      INT_MAX, (unsigned long long)(a->count / c->ranks));
    if (st != WEFT_OK)
        return st;
    const uint32_t n = lay_out(c, a);
    if (!n)
        return mpi_fail(h, WEFT_NO_MEMORY, "more than %d operations of MPI are in flight",
                        OPERATIONS);
    if (!c->in_group) {
        c->next = c->module->group;
        c->module->group = c;
        c->in_group = 1;
    }
    mpi_lane_post(&c->lane, n);
    return WEFT_OK;
}

static weft_status health(weft_comm *c)
{
    const int error = atomic_load(&c->lane.error);
    return error == MPI_SUCCESS
               ? WEFT_OK
               : mpi_says(c->host, WEFT_PEER,
                          "an operation failed in MPI, as it does when a rank is gone", error);
}

static weft_status test(weft_comm *c, uint32_t flags, uint64_t *done)
{
    if (flags)
        return weft_refuse_unknown(c->host);
    mpi_lane *lane = &c->lane;
    mpi_lane_advance(lane);
    const weft_status st = health(c);
    if (st != WEFT_OK)
        return st;
    lane->counted = atomic_load(&lane->finished);
    *done = lane->counted == atomic_load(&lane->posted)
                ? c->started
                : lane->ring[lane->counted % lane->room].mark - 1;
    return WEFT_OK;
}

/* MPI_Abort() would end all ranks without a word of the job. */
static void abort_comm(weft_comm *c)
{
    atomic_store(&c->aborted, 1);
    mpi_give_up();
}

const weft_coll_table mpi_coll = {
    .struct_size = sizeof mpi_coll,
    .caps = WEFT_COLL_HOST,
    .probe = probe,
    .id = make_id,
    .open = open_comm,
    .ready = ready,
    .close = close_comm,
    .begin = begin,
    .end = end,
    .call = call,
    .health = health,
    .abort = abort_comm,
    .test = test,
    .supports = supports,
};
