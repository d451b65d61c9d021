/* comm/engine.c: executes the steps of the operations of one link.
 *
 * A step whose dependencies are done is ready. Sends and receives are posted in lane order as soon
 * as the first of a lane is ready; copies and reductions are executed here, one at a time, polling
 * the link between them. A channel has one operation in progress; the others wait in start
 * order. */
#include "comm/engine.h"
#include "comm/place.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"

/* Rounds of one operation before the next one gets its turn. */
#define ROUNDS 16

void comm_op_prepare(comm_op *op)
{
    const sched_program *p = &op->program;
    pool *mem = &op->channel->link->world->pool;
    op->need = pool_array(mem, p->steps, sizeof *op->need);
    op->need0 = pool_array(mem, p->steps, sizeof *op->need0);
    op->ready = pool_array(mem, p->moves, sizeof *op->ready);
    op->lane = pool_array(mem, p->lanes, sizeof *op->lane);
    op->where = pool_array(mem, op->channel->n, sizeof *op->where);
    op->base[SCHED_OFFSETS] = (void *)op->where;
    for (uint32_t i = 0; i < p->steps; i++)
        op->need0[i] = p->step[i].need;
}

void comm_link_prepare(comm_link *l)
{
    pool *mem = &l->world->pool;
    uint32_t widest = 1, capacity = 1;
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (l->ops.at[i]->program.widest > widest)
            widest = l->ops.at[i]->program.widest;
    while (capacity <= l->ops.n)
        capacity *= 2;
    l->handed = pool_array(mem, capacity, sizeof *l->handed);
    l->mask = capacity - 1;
    l->active = pool_array(mem, l->channels.n, sizeof *l->active);
    l->from = pool_array(mem, widest, sizeof *l->from);
    l->to = pool_array(mem, widest, sizeof *l->to);
    l->mapped = pool_array(mem, l->world->who.ranks, sizeof *l->mapped);
    l->mapped_bytes = pool_array(mem, l->world->who.ranks, sizeof *l->mapped_bytes);
    l->imports = pool_array(mem, l->world->who.ranks, sizeof *l->imports);
}

static void begin(comm_op *op)
{
    const sched_program *p = &op->program;
    memcpy(op->need, op->need0, p->steps * sizeof *op->need);
    memset(op->lane, 0, p->lanes * sizeof *op->lane);
    op->ready_head = op->ready_tail = 0;
    op->left = p->steps;
    op->dirty = COMM_POST;
    for (uint32_t i = 0; i < p->steps && p->moves; i++)
        if (op->need[i] == 0 && p->step[i].what >= SCHED_REDUCE && p->step[i].what != SCHED_FETCH)
            op->ready[op->ready_tail++] = i;
    op->began = clock_ticks();
}

void comm_op_complete(comm_op *op, uint32_t step)
{
    const sched_program *p = &op->program;
    const sched_step *s = &p->step[step];
    op->left--;
    for (uint32_t i = 0; i < s->nexts; i++) {
        uint32_t n = p->next[s->next + i];
        if (--op->need[n])
            continue;
        if (p->step[n].what >= SCHED_REDUCE)
            op->ready[op->ready_tail++] = n;
        else
            op->dirty |= COMM_POST;
    }
}

weft_status comm_op_run(comm_op *op, uint32_t step)
{
    const sched_step *s = &op->program.step[step];
    const sched_place *place = &op->program.place[s->place];
    comm_link *l = op->channel->link;
    for (uint32_t i = 0; i < s->nfrom + s->nto; i++) {
        char *at = comm_op_resolve(op, &place[i], s->bytes);
        if (!at)
            return comm_op_fail(op, place[i].rank,
                                err_fail(WEFT_DATA, "the peer named a buffer outside its arena"));
        if (i < s->nfrom)
            l->from[i] = at;
        else
            l->to[i - s->nfrom] = at;
    }
    if (s->what == SCHED_COPY)
        memcpy(l->to[0], l->from[0], s->bytes);
    else if (s->what >= SCHED_ENCODE)
        comm_code_run(op->code, &op->schedule->r, s, l->to, l->from, op->times ? *op->times : 1);
    else
        comm_reduce_run(&(comm_reduce_job){op->kernel, op->redop, op->size, s->nto, s->nfrom, l->to,
                                           l->from, s->bytes / op->size});
    return WEFT_OK;
}

static weft_status post_whole(comm_op *op, uint32_t peer, const sched_step *s, int sending)
{
    char *at = s->bytes ? comm_op_resolve(op, &op->program.place[s->place], s->bytes) : NULL;
    return comm_post(op, peer, sending, at, s->bytes, op->channel->link->region);
}

/* Posts the next message of the sends (or receives) of a lane if its step is ready. *again: there
 * may be another one to post now. */
static weft_status post(comm_op *op, uint32_t lane, int sending, int *again)
{
    const sched_lane *l = &op->program.lane[lane];
    comm_lane_state *state = &op->lane[lane];
    comm_flow *flow = &op->channel->wire[l->peer].flow[sending];
    uint32_t *at = sending ? &state->send_posted : &state->recv_posted;
    *again = 0;
    if (*at == (sending ? l->sends : l->recvs))
        return WEFT_OK;
    uint32_t step = op->program.order[(sending ? l->send : l->recv) + *at];
    if (op->need[step])
        return WEFT_OK;
    const sched_step *s = &op->program.step[step];
    bool whole = true;
    weft_status st = flow->checked ? comm_checked_post(op, l->peer, s, sending, &whole)
                                   : post_whole(op, l->peer, s, sending);
    if (st == WEFT_BUSY) { /* its queue is full: retry after a completion */
        op->dirty |= COMM_POST;
        return WEFT_OK;
    }
    if (st != WEFT_OK)
        return comm_op_fail(op, l->peer, st);
    flow->posted++;
    *at += whole;
    *again = whole || !sending || flow->checked->post_at == s->bytes;
    if (!*again) /* the link moves this chunk while the next one is read */
        op->dirty |= COMM_POST_MORE;
    return WEFT_OK;
}

/* Receives first: the earlier a receive is posted, the less is buffered. */
static weft_status post_all(comm_op *op)
{
    op->dirty = 0;
    for (uint32_t i = 0; i < op->program.lanes; i++)
        for (int sending = 0; sending < 2; sending++) {
            int again;
            do {
                weft_status st = post(op, i, sending, &again);
                if (st != WEFT_OK)
                    return st;
            } while (again);
        }
    return WEFT_OK;
}

/* A count of progress() that cannot be. */
static weft_status miscounted(comm_op *op, uint32_t peer, int sending, uint64_t now)
{
    const char *const what = sending ? "sends" : "receives", *name, *path;
    const comm_link *l = op->channel->link;
    const comm_flow *flow = &op->channel->wire[peer].flow[sending];
    if (!host_call_whose(l->table, &name, &path))
        name = l->component->name;
    const unsigned long long counts = now, before = flow->done, all = flow->posted;
    (void)!err_fail_in(WEFT_INTERNAL, ERR_PLUGIN, name,
                       "its progress() counts %llu finished %s; %s %llu", counts, what,
                       now < flow->done ? "its last call counted more, and a count never falls:"
                                        : "so many were not posted on this connection, only",
                       now < flow->done ? before : all);
    return comm_op_fail(op, peer, WEFT_INTERNAL);
}

/* Takes the messages of a lane that the link has finished since the last call. */
static weft_status take_done(comm_op *op, uint32_t lane, int sending, uint64_t now)
{
    const sched_lane *l = &op->program.lane[lane];
    comm_lane_state *state = &op->lane[lane];
    comm_flow *flow = &op->channel->wire[l->peer].flow[sending];
    uint32_t *done = sending ? &state->send_done : &state->recv_done;
    if (now - flow->done > flow->posted - flow->done)
        return miscounted(op, l->peer, sending, now);
    for (; flow->done < now; ++flow->done) {
        uint32_t step = op->program.order[(sending ? l->send : l->recv) + *done];
        bool whole = true;
        weft_status st = WEFT_OK;
        if (flow->checked)
            st = comm_checked_complete(op, l->peer, &op->program.step[step], sending, &whole);
        if (st != WEFT_OK)
            return comm_op_fail_at_once(op, l->peer, st);
        if (!whole)
            continue;
        ++*done;
        comm_op_complete(op, step);
    }
    return WEFT_OK;
}

static weft_status poll_all(comm_op *op, int *moved)
{
    const weft_link_table *table = op->channel->link->table;
    for (uint32_t i = 0; i < op->program.lanes; i++) {
        comm_wire *w = &op->channel->wire[op->program.lane[i].peer];
        if (comm_wire_is_idle(w))
            continue;
        uint64_t sent = w->flow[1].done, received = w->flow[0].done;
        weft_status st = PLUGIN_CALL(table, progress, w->conn, 0, &sent, &received);
        if (st == WEFT_BUSY)
            continue;
        if (st != WEFT_OK)
            return comm_op_fail(op, op->program.lane[i].peer, st);
        *moved |= sent != w->flow[1].done || received != w->flow[0].done;
        st = take_done(op, i, 1, sent);
        if (st == WEFT_OK)
            st = take_done(op, i, 0, received);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static weft_status run_next(comm_op *op)
{
    const uint32_t step = op->ready[op->ready_head++];
    weft_status st = op->kind->run(op, step);
    if (st == WEFT_OK)
        comm_op_complete(op, step);
    return st;
}

weft_status comm_op_advance(comm_op *op, int *moved)
{
    int again = 1;
    for (uint32_t round = 0; round < ROUNDS && again && op->left; round++) {
        again = 0;
        weft_status st = op->dirty ? post_all(op) : WEFT_OK;
        if (st == WEFT_OK)
            st = poll_all(op, &again);
        again |= op->dirty & COMM_POST_MORE;
        if (st == WEFT_OK && op->ready_head < op->ready_tail) {
            st = run_next(op);
            again = 1;
        }
        if (st != WEFT_OK)
            return st;
        *moved |= again;
    }
    return WEFT_OK;
}

static void take_handed(comm_link *l)
{
    uint32_t in = atomic_load_explicit(&l->handed_in, memory_order_acquire);
    uint32_t out = atomic_load_explicit(&l->handed_out, memory_order_relaxed);
    for (; out != in; out++) {
        comm_op *op = l->handed[out & l->mask];
        op->next = NULL;
        *l->waiting_end = op;
        l->waiting_end = &op->next;
    }
    atomic_store_explicit(&l->handed_out, out, memory_order_release);
}

/* In start order; an operation whose channel is busy lets those of other channels pass. */
static void begin_waiting(comm_link *l)
{
    uint32_t max = l->table->channels ? l->table->channels : UINT32_MAX;
    for (comm_op **at = &l->waiting; *at && l->actives < max;) {
        comm_op *op = *at;
        if (op->channel->active) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (!op->next)
            l->waiting_end = at;
        op->channel->active = op;
        l->active[l->actives++] = op;
        begin(op);
    }
}

static void finish(comm_link *l, uint32_t index)
{
    comm_op *op = l->active[index];
    l->active[index] = l->active[--l->actives];
    op->channel->active = NULL;
    op->ended = clock_ticks();
    uint64_t sent = atomic_load_explicit(&l->sent, memory_order_relaxed);
    atomic_store_explicit(&l->sent, sent + op->schedule->sent, memory_order_relaxed);
    comm_count_one(&op->finished);
    comm_count_one(&l->finished);
}

int comm_link_has_work(const comm_link *l)
{
    return l->actives || l->waiting ||
           atomic_load(&l->handed_in) != atomic_load_explicit(&l->handed_out, memory_order_relaxed);
}

weft_status comm_link_advance(comm_link *l, int *moved)
{
    *moved = 0;
    take_handed(l);
    if (l->waiting)
        begin_waiting(l);
    for (uint32_t i = l->actives; i-- > 0;) {
        comm_op *op = l->active[i];
        weft_status st = op->kind->advance(op, moved);
        if (st != WEFT_OK)
            return st;
        if (op->left)
            continue;
        finish(l, i);
        *moved = 1;
    }
    return WEFT_OK;
}
