/* comm/import_peer.c: peer import: collectives between devices that map each other's arenas.
 *
 * Idea: the schedule of mapped.c, executed by the devices instead of the host. Messages over the
 * link still frame the work and carry buffer offsets, but the work, copies and reductions of peers'
 * memory in rank order, is enqueued on a stream of the device when the operation starts. That is
 * possible because the addresses of all starts are fixed before the first (comm_set_offsets): peers
 * have them from each other's comm_info, and each other's arenas from fd_passing.h. The first round
 * of messages only confirms them.
 *
 * Between the rounds there are two steps with a flag each (staging.c): `go`, which releases the
 * stream once all ranks have arrived, and `done`, which the stream raises. The steps in between are
 * the device's, and the engine skips them. A flag is written by this process only, so no device
 * waits for another: it waits for its host, which waits with a deadline.
 *
 * A reduction is an elementwise program that adds its inputs in fp32 and rounds once, as the host's
 * reductions do. Its operands are whole lines of 64 bytes, as devices require: all parts of a
 * message, even a short one, begin at lines, so that the last rank has whole lines too.
 *
 * Cost for S bytes: as mapped.c, in device memory; nothing passes through host memory. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/awake.h"
#include "comm/info.h"
#include "comm/place.h"

#include <weft/device.h>

#define LINE 64u
#define DRAIN_NS 2000000000u /* limit for released work to finish at the end */

/* --- set-up --- */

void comm_set_offsets(comm_op *op, uint64_t in, uint64_t out)
{
    op->where[op->channel->me] = (sched_buffer_offsets){op->in_bytes ? in : SCHED_NO_OFFSET,
                                                        op->out_bytes ? out : SCHED_NO_OFFSET};
}

static weft_status prepare_sum(const comm_staging *s, const sched_request *r, uint64_t count,
                               weft_prepared **out)
{
    static const uint16_t ops[] = {
        [WEFT_SUM] = WEFT_EW_ADD, [WEFT_MAX] = WEFT_EW_MAX, [WEFT_MIN] = WEFT_EW_MIN};
    const uint16_t n = (uint16_t)r->ranks, last = (uint16_t)(2 * n - 2);
    weft_operand operand[WEFT_MAX_OPERANDS];
    weft_ew_step step[WEFT_MAX_OPERANDS];
    for (uint16_t i = 0; i < n; i++)
        operand[i] = (weft_operand){.dtype = r->dtype, .rank = 1, .size[0] = (int64_t)count};
    for (uint16_t i = 1; i < n; i++)
        step[i - 1] = (weft_ew_step){.op = ops[r->redop],
                                     .dst = (uint16_t)(n + i - 1),
                                     .a = i == 1 ? 0 : (uint16_t)(n + i - 2),
                                     .b = i,
                                     .flags = count == 1 ? WEFT_EW_SCALAR : 0};
    const weft_ew_program program = {sizeof program, (uint32_t)n - 1, 2 * (uint32_t)n - 1, -1, step,
                                     &last};
    const weft_opspec spec = {.struct_size = sizeof spec,
                              .id = "ew",
                              .nin = n,
                              .nout = 1,
                              .in = operand,
                              .out = operand,
                              .program = &program};
    return PLUGIN_CALL(s->table, prepare, s->device, &spec, out);
}

/* Uses the reduction of an earlier operation, or prepares a new one. */
static weft_status take_sum(comm_world *w, comm_op *op, uint64_t count)
{
    const sched_request *r = &op->schedule->r;
    for (uint32_t i = 0; i < w->sums.n; i++) {
        const comm_sum *k = &w->sums.at[i];
        if (k->count != count || k->ranks != r->ranks || k->dtype != r->dtype ||
            k->redop != r->redop)
            continue;
        op->sum = k->prepared;
        return WEFT_OK;
    }
    weft_status st = prepare_sum(&w->arena.stage, r, count, &op->sum);
    if (st == WEFT_OK)
        *vec_push(&w->sums) = (comm_sum){count, r->ranks, r->dtype, r->redop, op->sum};
    return st;
}

/* Offsets that come with messages go to a table of their own, since those in `where` are fixed. */
static weft_status prepare_op(comm_op *op)
{
    comm_world *w = op->channel->link->world;
    const sched_buffer_offsets *mine = &op->where[op->channel->me];
    sched_buffer_offsets *received = pool_array(&w->pool, op->channel->n, sizeof *received);
    received[op->channel->me] = *mine;
    op->base[SCHED_OFFSETS] = (void *)received;
    for (uint32_t i = 0; i < op->program.steps; i++) {
        const sched_step *s = &op->program.step[i];
        if (s->what != SCHED_REDUCE)
            continue;
        if (mine->in % LINE || (op->out_bytes && mine->out % LINE))
            return err_fail_in(WEFT_INTERNAL, ERR_ENTRY, op->name,
                               "its buffers are not aligned to cache lines");
        weft_status st = take_sum(w, op, s->bytes / op->size);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

/* Imports the arena received from a rank. */
static weft_status import_arena(comm_link *l, const comm_fd_passing_socket *box,
                                comm_info *const *infos)
{
    const comm_staging *s = &l->world->arena.stage;
    uint32_t rank;
    void *base;
    int fd;
    weft_status st = comm_fd_passing_receive(box, &rank, &fd);
    if (st != WEFT_OK)
        return st;
    if (rank < l->world->who.ranks && l->imports[rank] && !l->mapped[rank]) {
        st = PLUGIN_CALL(s->table, import_peer, s->device, fd, infos[rank]->device_bytes, &base);
        l->mapped[rank] = st == WEFT_OK ? base : NULL;
        l->mapped_bytes[rank] = infos[rank]->device_bytes;
    }
    close(fd);
    if (st != WEFT_OK)
        err_context("mapping the device memory of rank %u, without which 'mapped' is not possible "
                    "([comm] algorithm = pairwise goes through host memory)",
                    rank);
    return st;
}

static weft_status import_arenas(comm_link *l, const comm_fd_passing_socket *box,
                                 comm_info *const *infos, uint64_t deadline_ns)
{
    const uint32_t ranks = l->world->who.ranks, me = l->world->who.rank;
    unsigned char *sent = pool_array(&l->world->pool, ranks, 1);
    for (;;) {
        uint32_t left = 0, late = 0;
        weft_status st = WEFT_OK;
        for (uint32_t r = 0; r < ranks && st == WEFT_OK; r++) {
            if (l->imports[r] && !sent[r]) {
                st = comm_fd_passing_send(box, me, &infos[r]->pass, l->world->arena.stage.fd);
                sent[r] = st == WEFT_OK;
                st = st == WEFT_BUSY ? WEFT_OK : st;
            }
            const int waits = l->imports[r] && (!sent[r] || !l->mapped[r]);
            late = waits ? r : late;
            left += (uint32_t)waits;
        }
        if (st == WEFT_OK && left)
            st = import_arena(l, box, infos);
        if (job_failure(l->world->job) != WEFT_OK)
            return WEFT_PEER;
        if (st > WEFT_BUSY || !left)
            return st;
        if (st == WEFT_OK)
            continue;
        if (awake_ns() > deadline_ns)
            return err_fail(WEFT_PEER,
                            "link %s: %u arenas of devices have not come in time, one of "
                            "rank %u",
                            l->component->name, left, late);
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
}

weft_status comm_import_peer_prepare(comm_link *l, const comm_fd_passing_socket *box,
                                     comm_info *const *infos, uint64_t deadline_ns)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < l->ops.n && st == WEFT_OK; i++)
        if (l->ops.at[i]->kind == &comm_kind_imported)
            st = prepare_op(l->ops.at[i]);
    return st == WEFT_OK ? import_arenas(l, box, infos, deadline_ns) : st;
}

/* --- a start --- */

/* Peers have these offsets, so a start must use them. */
static weft_status check(const comm_op *op, const char *in, const char *out, const char *scratch)
{
    const sched_buffer_offsets *w = &op->where[op->channel->me];
    const char *base = op->channel->link->world->arena.stage.base;
    (void)scratch;
    if ((!op->in_bytes || in == base + w->in) && (!op->out_bytes || out == base + w->out))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "%s on channel %s: started with other buffers than were fixed for it", op->name,
                    op->channel->name);
}

static weft_status enqueue(comm_op *op, weft_stream *stream, const sched_step *s)
{
    const comm_staging *d = &op->channel->link->world->arena.stage;
    const sched_place *place = &op->program.place[s->place];
    const void *from[WEFT_MAX_OPERANDS];
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < s->nfrom; i++)
        if (!(from[i] = comm_op_resolve(op, &place[i], s->bytes)))
            return err_fail_in(WEFT_DATA, ERR_ENTRY, op->name,
                               "rank %u named a buffer outside its arena",
                               op->channel->ranks[place[i].rank]);
    void *first = comm_op_resolve(op, &place[s->nfrom], s->bytes);
    if (first && s->what == SCHED_REDUCE)
        st = PLUGIN_CALL(d->table, run, op->sum, stream, from, &first, NULL, 0);
    for (uint32_t i = s->what == SCHED_REDUCE; i < s->nto && st == WEFT_OK; i++) {
        void *to = comm_op_resolve(op, &place[s->nfrom + i], s->bytes);
        st = !first || !to ? err_fail_in(WEFT_DATA, ERR_ENTRY, op->name,
                                         "a peer named a buffer outside its arena")
                           : PLUGIN_CALL(d->table, copy, d->device, stream, to,
                                         s->what == SCHED_REDUCE ? first : from[0], s->bytes, 0);
    }
    return st;
}

/* Enqueues the work between its two flags. */
static weft_status start(comm_op *op)
{
    comm_world *w = op->channel->link->world;
    const comm_staging *s = &w->arena.stage;
    comm_staged *g = op->staged;
    weft_stream *stream = op->channel->stores;
    weft_status st = comm_staging_open(op);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(s->table, stream_wait, stream, w->ready, 0);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(s->table, flag_wait, stream, g->stored, op->started, 0);
    for (uint32_t i = 0; i < op->program.steps && st == WEFT_OK; i++) {
        const sched_step *x = &op->program.step[i];
        if (x->what == SCHED_REDUCE || x->what == SCHED_COPY)
            st = enqueue(op, stream, x);
    }
    if (st == WEFT_OK)
        st = PLUGIN_CALL(s->table, flag_set, stream, g->fetched, op->started, 0);
    return st == WEFT_OK ? PLUGIN_CALL(s->table, record, g->done, stream, 0) : st;
}

/* Before the work may begin: checks that peers use the buffer offsets of their comm_info. */
static weft_status confirm(comm_op *op)
{
    const sched_buffer_offsets *received =
        (const sched_buffer_offsets *)(void *)op->base[SCHED_OFFSETS];
    for (uint32_t i = 0; i < op->program.steps; i++) {
        const sched_step *s = &op->program.step[i];
        if (s->what != SCHED_RECV || !s->bytes)
            continue;
        if (memcmp(&received[s->peer], &op->where[s->peer], sizeof *received) != 0)
            return comm_op_fail(
                op, s->peer,
                err_fail(WEFT_PEER, "its buffers are not at the addresses that it sent"));
    }
    return WEFT_OK;
}

/* All steps but the store are the device's. */
static weft_status run(comm_op *op, uint32_t step)
{
    if (op->program.step[step].what != SCHED_STORE)
        return WEFT_OK;
    weft_status st = confirm(op);
    if (st == WEFT_OK)
        comm_staging_store(op, step);
    return st;
}

const comm_op_kind comm_kind_imported = {check, start, comm_staging_advance, run, comm_staging_wait,
                                         true};

void comm_import_peer_free(comm_world *w)
{
    const comm_staging *d = &w->arena.stage;
    uint64_t until = awake_ns() + DRAIN_NS;
    int late = 0;
    for (uint32_t i = 0; i < w->on_device.n && w->sums.n; i++) {
        const comm_op *op = w->on_device.at[i];
        while (op->kind == &comm_kind_imported && op->staged->done && !late &&
               PLUGIN_POLL(d->table, event_query, op->staged->done, 0) == WEFT_BUSY) {
            late = awake_ns() > until;
            nanosleep(&(struct timespec){0, 100000}, NULL);
        }
    }
    for (uint32_t i = 0; i < w->sums.n && !late; i++) /* otherwise running work still uses them */
        PLUGIN_DO(d->table, release, w->sums.at[i].prepared);
    free(w->sums.at);
}
