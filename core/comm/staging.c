/* comm/staging.c: staged operations: collectives on memory that no link can access run on a mirror
 * in host memory (schedule/mirror.h).
 *
 * The device does the copies. When an operation starts, the compute thread enqueues all of them:
 * each fetch is followed by raising a flag in host memory, each store waits for one. So the
 * progress thread only reads and writes flags, and only the compute thread calls the device.
 * Fetches share a stream, because they wait only for the compute stream. Stores have one stream per
 * channel: two operations may finish in either order.
 *
 * A flag holds the number of the start that last raised it. The first one is a gate: until the
 * compute stream has reached the start, the mirror is still used by others.
 *
 * Each operation in flight has a mirror. Over a link slower than the bus only the first and the
 * last chunk add time. */
#include "base/err.h"
#include "comm/engine.h"
#include "schedule/mirror.h"

#include <weft/device.h>

static weft_status prepare_op(comm_op *op, uint32_t **flags)
{
    const comm_staging *s = &op->channel->link->world->arena.stage;
    comm_staged *g = op->staged;
    g->gate = *flags;
    g->fetched = g->gate + 1;
    g->stored = g->fetched + g->fetches;
    *flags = g->stored + g->stores;
    weft_status st = WEFT_OK;
    if (!op->channel->stores)
        st = PLUGIN_CALL(s->table, stream, s->device, 1, &op->channel->stores);
    return st != WEFT_OK ? st : PLUGIN_CALL(s->table, event, s->device, &g->done);
}

void comm_staging_add(comm_op *op)
{
    comm_staged *g = pool_alloc(&op->channel->link->world->pool, sizeof *g);
    for (uint32_t i = op->program.steps; i-- > 0;) {
        const uint32_t what = op->program.step[i].what;
        g->fetches += what == SCHED_FETCH;
        g->stores += what == SCHED_STORE;
        g->first_fetch = what == SCHED_FETCH ? i : g->first_fetch;
        g->first_store = what == SCHED_STORE ? i : g->first_store;
    }
    op->staged = g;
    *vec_push(&op->channel->link->world->on_device) = op;
}

weft_status comm_staging_prepare(comm_world *w)
{
    const comm_staging *s = &w->arena.stage;
    uint64_t count = 0;
    void *block;
    for (uint32_t i = 0; i < w->on_device.n; i++)
        count += 1 + w->on_device.at[i]->staged->fetches + w->on_device.at[i]->staged->stores;
    if (count == 0)
        return WEFT_OK;
    if (!s->table || !(s->table->caps & WEFT_DEV_FLAGS))
        return err_fail(
            WEFT_UNSUPPORTED,
            "the device's memory is out of the links' reach, and it cannot wait for flags "
            "in host memory, by which copies would be handed over");
    weft_status st =
        PLUGIN_CALL(s->table, host_memory, s->device, count * sizeof(uint32_t), &block);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(s->table, stream, s->device, 1, &w->fetches);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(s->table, event, s->device, &w->ready);
    if (st != WEFT_OK)
        return st;
    uint32_t *flags = block;
    for (uint64_t i = 0; i < count; i++)
        flags[i] = 0;
    for (uint32_t i = 0; i < w->on_device.n && st == WEFT_OK; i++)
        st = prepare_op(w->on_device.at[i], &flags);
    return st;
}

weft_status comm_staging_open(comm_op *op)
{
    comm_world *w = op->channel->link->world;
    const comm_staging *s = &w->arena.stage;
    op->staged->seen = 0;
    weft_status st = PLUGIN_CALL(s->table, record, w->ready, s->compute, 0);
    if (st == WEFT_OK)
        st = PLUGIN_CALL(s->table, stream_wait, w->fetches, w->ready, 0);
    return st != WEFT_OK
               ? st
               : PLUGIN_CALL(s->table, flag_set, w->fetches, op->staged->gate, op->started, 0);
}

/* The mirror follows the algorithm's own scratch. */
static void use_mirror(comm_op *op)
{
    char *in = op->base[SCHED_SCRATCH] + op->scratch_bytes - sched_mirror_bytes(&op->schedule->r);
    char *out = in + sched_align_line(op->in_bytes);
    if (op->shared) { /* same memory: the smaller side is part of the larger */
        out = op->in_bytes > op->out_bytes ? in + op->shift : in;
        in = op->in_bytes < op->out_bytes ? in + op->shift : in;
    }
    op->base[SCHED_IN] = in;
    op->base[SCHED_OUT] = out;
}

static weft_status enqueue_fetches(comm_op *op, const char *in)
{
    comm_world *w = op->channel->link->world;
    const comm_staging *s = &w->arena.stage;
    comm_staged *g = op->staged;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < g->fetches && st == WEFT_OK; i++) {
        sched_span p = sched_mirror_chunk(op->in_bytes, i);
        st = PLUGIN_CALL(s->table, copy, s->device, w->fetches, op->base[SCHED_IN] + p.at,
                         in + p.at, p.bytes, 0);
        if (st == WEFT_OK)
            st = PLUGIN_CALL(s->table, flag_set, w->fetches, &g->fetched[i], op->started, 0);
    }
    return st;
}

static weft_status enqueue_stores(comm_op *op, char *out)
{
    comm_world *w = op->channel->link->world;
    const comm_staging *s = &w->arena.stage;
    comm_staged *g = op->staged;
    weft_stream *stream = op->channel->stores;
    weft_status st = PLUGIN_CALL(s->table, stream_wait, stream, w->ready, 0);
    for (uint32_t i = 0; i < g->stores && st == WEFT_OK; i++) {
        sched_span p = sched_mirror_chunk(op->out_bytes, i);
        st = PLUGIN_CALL(s->table, flag_wait, stream, &g->stored[i], op->started, 0);
        if (st == WEFT_OK)
            st = PLUGIN_CALL(s->table, copy, s->device, stream, out + p.at,
                             op->base[SCHED_OUT] + p.at, p.bytes, 0);
    }
    return st == WEFT_OK ? PLUGIN_CALL(s->table, record, g->done, stream, 0) : st;
}

static weft_status start(comm_op *op)
{
    const char *in = op->base[SCHED_IN];
    char *out = op->base[SCHED_OUT];
    use_mirror(op);
    weft_status st = comm_staging_open(op);
    if (st == WEFT_OK)
        st = enqueue_fetches(op, in);
    return st == WEFT_OK ? enqueue_stores(op, out) : st;
}

/* Links access only the mirror, which is in scratch. */
static weft_status check(const comm_op *op, const char *in, const char *out, const char *scratch)
{
    (void)in, (void)out;
    return comm_op_check(op, scratch, scratch, scratch);
}

static int is_raised(const uint32_t *flag, uint32_t start)
{
    return (int32_t)(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - start) >= 0;
}

/* Completes fetches that the device has finished since the last call. */
weft_status comm_staging_advance(comm_op *op, int *moved)
{
    comm_staged *g = op->staged;
    if (!is_raised(g->gate, op->started)) /* the compute stream has not reached the start */
        return WEFT_OK;
    for (; g->seen < g->fetches && is_raised(&g->fetched[g->seen], op->started); *moved = 1)
        comm_op_complete(op, g->first_fetch + g->seen++);
    return comm_op_advance(op, moved);
}

void comm_staging_store(comm_op *op, uint32_t step)
{
    uint32_t *flag = &op->staged->stored[step - op->staged->first_store];
    __atomic_store_n(flag, op->started, __ATOMIC_RELEASE);
}

static weft_status run(comm_op *op, uint32_t step)
{
    if (op->program.step[step].what != SCHED_STORE)
        return comm_op_run(op, step);
    comm_staging_store(op, step);
    return WEFT_OK;
}

weft_status comm_staging_wait(comm_op *op, double deadline)
{
    const comm_staging *s = &op->channel->link->world->arena.stage;
    weft_status st = comm_op_wait(op, deadline);
    return st == WEFT_OK ? PLUGIN_CALL(s->table, stream_wait, s->compute, op->staged->done, 0) : st;
}

const comm_op_kind comm_kind_staged = {check, start, comm_staging_advance, run, comm_staging_wait,
                                       true};

void comm_staging_give_up(comm_world *w)
{
    for (uint32_t i = 0; i < w->on_device.n; i++) {
        const comm_op *op = w->on_device.at[i];
        for (uint32_t f = 0; op->staged->stored && f < op->staged->stores; f++)
            __atomic_store_n(&op->staged->stored[f], op->started, __ATOMIC_RELEASE);
    }
}
