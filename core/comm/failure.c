/* comm/failure.c: the first failure is the failure of the world; every later call repeats it.
 *
 * A broken connection does not show the root cause: the peer may have died, or have left because a
 * third rank died. The job knows the root cause but may learn it a moment later, so after a link
 * failure this rank waits briefly for the job before it aborts its own links, which would look like
 * a failure to others. */
#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "comm/engine.h"

#define GRACE_MS 2000

weft_status comm_world_failed(comm_world *w)
{
    weft_status st = (weft_status)atomic_load_explicit(&w->failed, memory_order_acquire);
    return st == WEFT_OK ? WEFT_OK : err_again(st, &w->why);
}

/* Once each. The caller holds the lock. */
static void abort_links(comm_world *w)
{
    for (uint32_t i = 0; !w->aborted && i < w->links.n; i++)
        if (w->links.at[i]->link)
            PLUGIN_DO(w->links.at[i]->table, abort, w->links.at[i]->link);
    w->aborted = true;
}

weft_status comm_peer_status(weft_status st)
{
    return st == WEFT_DATA ? WEFT_IO : st;
}

weft_status comm_world_fail(comm_world *w, weft_status st)
{
    st = comm_peer_status(st);
    pthread_mutex_lock(&w->failing);
    int first = atomic_load(&w->failed) == WEFT_OK;
    if (first) {
        err_keep(&w->why);
        atomic_store_explicit(&w->failed, (int)st, memory_order_release);
    }
    if (first)
        abort_links(w);
    pthread_mutex_unlock(&w->failing);
    return comm_world_failed(w);
}

void comm_world_abort(comm_world *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->failing);
    abort_links(w);
    pthread_mutex_unlock(&w->failing);
}

bool comm_cause_known(job *j, const atomic_int *failed)
{
    const struct timespec moment = {0, 1000000};
    for (uint32_t ms = 0; j && ms < GRACE_MS; ms++) {
        if (failed && atomic_load(failed) != WEFT_OK)
            return false;
        if (job_failure(j) != WEFT_OK)
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

void comm_op_put_name(const comm_op *op)
{
    const comm_channel *c = op->channel;
    err_context("%s on channel %s over %s", op->name, c->name, c->link->component->name);
    err_set_name(ERR_ENTRY, op->name);
}

weft_status comm_op_fail(comm_op *op, uint32_t peer, weft_status st)
{
    const comm_channel *c = op->channel;
    comm_world *w = c->link->world;
    err_record why;
    err_keep(&why);
    if ((st == WEFT_PEER || st == WEFT_IO) && comm_cause_known(w->job, &w->failed)) {
        /* the error record is now the job's */
        comm_op_put_name(op);
        return comm_world_fail(w, WEFT_PEER);
    }
    (void)!err_again(st, &why);
    return comm_op_fail_at_once(op, peer, st);
}

weft_status comm_op_fail_at_once(comm_op *op, uint32_t peer, weft_status st)
{
    const comm_channel *c = op->channel;
    comm_world *w = c->link->world;
    err_context("with rank %u", c->ranks[peer]);
    comm_op_put_name(op);
    return comm_world_fail(w, st);
}

/* The ranks with posted, unfinished sends or receives. */
static void name_late(const comm_op *op, char *text, size_t capacity)
{
    size_t used = 0;
    uint32_t more = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < op->program.lanes; i++) {
        const uint32_t peer = op->program.lane[i].peer, rank = op->channel->ranks[peer];
        if (comm_wire_is_idle(&op->channel->wire[peer]))
            continue;
        if (used + 24 < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%u", used ? ", " : "", rank);
        else
            more++;
    }
    if (more)
        snprintf(text + used, capacity - used, " and %u more", more);
}

weft_status comm_op_timeout(comm_op *op, double seconds)
{
    const comm_channel *c = op->channel;
    comm_op *on = c->active ? c->active : op;
    char ranks[160];
    name_late(on, ranks, sizeof ranks);
    const weft_status st = err_fail(WEFT_PEER, "not finished after %g s; %s%s%s%s%s", seconds,
                                    on != op ? "it waits behind " : "", on != op ? on->name : "",
                                    on != op ? ", which " : "",
                                    ranks[0] ? "waits for rank " : "has nothing under way", ranks);
    comm_op_put_name(op);
    return comm_world_fail(c->link->world, st);
}
