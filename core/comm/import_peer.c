/* comm/import_peer.c: peer import: collectives between devices that map each other's arenas.
 *
 * Idea: the schedule of mapped.c, executed by the devices instead of the host. Messages over the
 * link still frame the work and carry buffer offsets, but the work, copies and reductions of peers'
 * memory in rank order, is enqueued on a stream of the device when the operation starts. That is
 * possible because the addresses of all starts are fixed before the first (comm_set_offsets): peers
 * have them from the link_info of connect.c. The first round of messages only confirms them.
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

#include "base/err.h"
#include "base/time/awake.h"
#include "comm/engine.h"
#include "comm/place.h"
#include "host/call.h"

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
    const sched_request *r = sched_request_of(op->schedule);
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

weft_status comm_import_peer_prepare(comm_op *op)
{
    comm_world *w = op->channel->link->world;
    const sched_buffer_offsets *mine = &op->where[op->channel->me];
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

/* --- a start --- */

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

weft_status comm_import_peer_start(comm_op *op, weft_stream *stream)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < op->program.steps && st == WEFT_OK; i++) {
        const sched_step *s = &op->program.step[i];
        if (s->what == SCHED_REDUCE || s->what == SCHED_COPY)
            st = enqueue(op, stream, s);
    }
    return st;
}

weft_status comm_import_peer_confirm(comm_op *op, uint32_t *peer)
{
    const sched_buffer_offsets *heard =
        (const sched_buffer_offsets *)(void *)op->base[SCHED_OFFSETS];
    for (uint32_t i = 0; i < op->program.steps; i++) {
        const sched_step *s = &op->program.step[i];
        if (s->what != SCHED_RECV || !s->bytes)
            continue;
        *peer = s->peer;
        if (memcmp(&heard[s->peer], &op->where[s->peer], sizeof *heard) != 0)
            return err_fail(WEFT_PEER, "its buffers are not at the addresses that it sent");
    }
    return WEFT_OK;
}

void comm_import_peer_free(comm_world *w)
{
    const comm_staging *d = &w->arena.stage;
    uint64_t until = awake_ns() + DRAIN_NS;
    int late = 0;
    for (uint32_t i = 0; i < w->links.n && w->sums.n; i++)
        for (uint32_t k = 0; k < w->links.at[i]->ops.n; k++) {
            const comm_op *op = w->links.at[i]->ops.at[k];
            while (op->attached && op->staged->done && !late &&
                   PLUGIN_POLL(d->table, event_query, op->staged->done, 0) == WEFT_BUSY) {
                late = awake_ns() > until;
                nanosleep(&(struct timespec){0, 100000}, NULL);
            }
        }
    for (uint32_t i = 0; i < w->sums.n && !late; i++) /* otherwise running work still uses them */
        PLUGIN_DO(d->table, release, w->sums.at[i].prepared);
    free(w->sums.at);
}
