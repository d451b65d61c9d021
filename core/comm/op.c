/* comm/op.c: the calls of the compute thread, which walks the lists: start, wait. What a start
 * checks and does besides is the kind's; here are the kinds on memory that the host accesses. */
#include "base/clock.h"
#include "base/err.h"
#include "base/number/check.h"
#include "base/time/awake.h"
#include "comm/engine.h"

static int in_arena(const comm_world *w, const void *p, uint64_t bytes)
{
    uint64_t at = (uint64_t)((const char *)p - (const char *)w->arena.base);
    return bytes == 0 || (w->arena.base && check_range(at, bytes, w->arena.bytes));
}

static weft_status check_arena(const comm_op *op, const char *in, const char *out,
                               const char *scratch, const char *needed_by)
{
    const comm_world *w = op->channel->link->world;
    if (in_arena(w, in, op->in_bytes) && in_arena(w, out, op->out_bytes) &&
        in_arena(w, scratch, op->scratch_bytes))
        return WEFT_OK;
    return err_fail(
        WEFT_USAGE,
        "%s on channel %s: its memory is not in the arena, which %s needs; use memory of "
        "the arena or another algorithm",
        op->name, op->channel->name, needed_by);
}

weft_status comm_op_check(const comm_op *op, const char *in, const char *out, const char *scratch)
{
    const comm_link *l = op->channel->link;
    return l->table->caps & WEFT_LINK_REGISTER
               ? check_arena(op, in, out, scratch, l->component->name)
               : WEFT_OK;
}

static weft_status check_mapped(const comm_op *op, const char *in, const char *out,
                                const char *scratch)
{
    return check_arena(op, in, out, scratch, "the algorithm 'mapped'");
}

static weft_status check_memory(const comm_op *op, const char *in, const char *out,
                                const char *scratch)
{
    const char *missing = op->in_bytes && !in                                   ? "input"
                          : op->out_bytes && !out                               ? "output"
                          : op->schedule->residual && !op->base[SCHED_RESIDUAL] ? "feedback"
                          : op->scratch_bytes && !scratch                       ? "scratch"
                                                                                : NULL;
    if (missing)
        return err_fail(WEFT_USAGE, "%s on channel %s: started without memory for its %s", op->name,
                        op->channel->name, missing);
    const char *large = op->in_bytes > op->out_bytes ? in : out;
    const char *small = op->in_bytes > op->out_bytes ? out : in;
    if (op->shared && small != large + op->shift)
        return err_fail(
            WEFT_USAGE,
            "%s on channel %s: made for one memory in place, but started with an output "
            "that is another place than its input",
            op->name, op->channel->name);
    int disjoint = in + op->in_bytes <= out || out + op->out_bytes <= in;
    if (!op->shared && op->in_bytes && op->out_bytes && !disjoint)
        return err_fail(WEFT_USAGE, "%s on channel %s: input and output overlap", op->name,
                        op->channel->name);
    return op->kind->check(op, in, out, scratch);
}

static weft_status start_nothing(comm_op *op)
{
    (void)op;
    return WEFT_OK;
}

static uint64_t place_in_arena(const comm_op *op, const char *at)
{
    const comm_arena *a = &op->channel->link->world->arena;
    return at ? (uint64_t)(at - (const char *)a->base) : SCHED_NO_OFFSET;
}

/* Peers receive the offsets of the buffers. */
static weft_status start_mapped(comm_op *op)
{
    op->where[op->channel->me] = (sched_buffer_offsets){place_in_arena(op, op->base[SCHED_IN]),
                                                        place_in_arena(op, op->base[SCHED_OUT])};
    return WEFT_OK;
}

int comm_is_staged(const comm_op *op)
{
    return op->kind->on_device;
}

static int is_finished(const comm_op *op)
{
    return atomic_load_explicit(&op->finished, memory_order_acquire) == op->started;
}

weft_status comm_start(comm_op *op, const void *in, void *out, void *scratch, int overlap)
{
    comm_link *l = op->channel->link;
    weft_status st = comm_world_failed(l->world);
    if (st != WEFT_OK)
        return st;
    if (!l->world->connected)
        st = err_fail(WEFT_USAGE, "%s: started before comm_connect()", op->name);
    if (st == WEFT_OK && !is_finished(op))
        st = err_fail(WEFT_USAGE, "%s on channel %s: started again before it has finished",
                      op->name, op->channel->name);
    if (st == WEFT_OK)
        st = check_memory(op, in, out, scratch);
    if (st != WEFT_OK) {
        err_set_name(ERR_ENTRY, op->name); /* all of these begin with it */
        return st;
    }
    op->base[SCHED_IN] = (char *)(uintptr_t)in; /* read only */
    op->base[SCHED_OUT] = out;
    op->base[SCHED_SCRATCH] = scratch;
    op->started++;
    st = op->kind->start(op);
    if (st != WEFT_OK)
        return st;
    l->started++;
    uint32_t at = atomic_load_explicit(&l->handed_in, memory_order_relaxed);
    l->handed[at & l->mask] = op;
    if (!overlap) { /* only comm_wait() needs it, and looks before it sleeps */
        atomic_store_explicit(&l->handed_in, at + 1, memory_order_release);
        return WEFT_OK;
    }
    atomic_store(&l->handed_in, at + 1); /* before the progress thread's state is read */
    comm_progress_kick(l);
    return WEFT_OK;
}

/* While this thread serves one link, the progress threads of the others serve theirs: a peer may
 * wait for something that was started here and is not being waited for. */
static void serve_others(const comm_link *l)
{
    comm_world *w = l->world;
    for (uint32_t i = 0; i < w->links.n; i++) {
        comm_link *other = w->links.at[i];
        if (other != l && other->started != atomic_load(&other->finished))
            comm_progress_kick(other);
    }
}

static weft_status move_until(comm_op *op, double seconds)
{
    comm_link *l = op->channel->link;
    uint64_t deadline = seconds < 1e9 ? awake_ns() + (uint64_t)(seconds * 1e9) : UINT64_MAX;
    comm_idle state = {0};
    while (!is_finished(op)) {
        int moved;
        call_tick();
        weft_status st = comm_link_advance(l, &moved);
        if (st == WEFT_OK && moved) {
            state = (comm_idle){0};
            continue;
        }
        if (st == WEFT_OK)
            st = comm_link_idle(l, &state, 1, deadline);
        if (st == WEFT_BUSY && awake_ns() >= deadline)
            st = comm_op_timeout(op, seconds);
        if (st > WEFT_BUSY)
            return st;
    }
    return WEFT_OK;
}

weft_status comm_op_wait(comm_op *op, double deadline)
{
    comm_link *l = op->channel->link;
    weft_status st = comm_world_failed(l->world);
    if (st != WEFT_OK || is_finished(op))
        return st;
    if (l->world->links.n > 1)
        serve_others(l);
    comm_link_claim(l);
    st = move_until(op, deadline);
    comm_link_release(l);
    return st;
}

weft_status comm_wait(comm_op *op, double deadline)
{
    return op->kind->wait(op, deadline);
}

const comm_op_kind comm_kind_link = {comm_op_check, start_nothing, comm_op_advance,
                                     comm_op_run,   comm_op_wait,  false};

const comm_op_kind comm_kind_mapped = {check_mapped, start_mapped, comm_op_advance,
                                       comm_op_run,  comm_op_wait, false};

/* Both clocks run at constant rates, so two moments known on both convert any third. */
void comm_times(const comm_op *op, uint64_t *began, uint64_t *ended)
{
    *began = *ended = 0;
    if (op->started == 0 || !is_finished(op))
        return;
    const comm_world *w = op->channel->link->world;
    uint64_t now = clock_ticks(), now_ns = clock_ns();
    double ns = (double)(now_ns - w->base_ns) / (double)(now - w->base_ticks);
    *began = now_ns - (uint64_t)((double)(now - op->began) * ns);
    *ended = now_ns - (uint64_t)((double)(now - op->ended) * ns);
}
