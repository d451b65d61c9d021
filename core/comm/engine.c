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
#include "base/number/check.h"
#include "host/call.h"

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
    op->base[SCHED_OFFSETS] =
        op->attached ? pool_array(mem, op->channel->n, sizeof *op->where) : (void *)op->where;
    for (uint32_t i = 0; i < p->steps; i++)
        op->need0[i] = p->step[i].need;
}

void comm_link_prepare(comm_link *l)
{
    pool *mem = &l->world->pool;
    uint32_t widest = 1, room = 1;
    for (uint32_t i = 0; i < l->ops.n; i++)
        if (l->ops.at[i]->program.widest > widest)
            widest = l->ops.at[i]->program.widest;
    while (room <= l->ops.n)
        room *= 2;
    l->handed = pool_array(mem, room, sizeof *l->handed);
    l->mask = room - 1;
    l->active = pool_array(mem, l->channels.n, sizeof *l->active);
    l->from = pool_array(mem, widest, sizeof *l->from);
    l->to = pool_array(mem, widest, sizeof *l->to);
    l->mapped = pool_array(mem, l->world->who.ranks, sizeof *l->mapped);
    l->mapped_bytes = pool_array(mem, l->world->who.ranks, sizeof *l->mapped_bytes);
    l->attaches = pool_array(mem, l->world->who.ranks, sizeof *l->attaches);
}

static uint64_t place_in_arena(const comm_op *op, const char *at)
{
    const comm_arena *a = &op->channel->link->world->arena;
    return at ? (uint64_t)(at - (const char *)a->base) : SCHED_NO_OFFSET;
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
    if (op->attached)
        ((sched_buffer_offsets *)(void *)op->base[SCHED_OFFSETS])[op->channel->me] =
            op->where[op->channel->me];
    else if (sched_maps_peers(op->schedule))
        op->where[op->channel->me] = (sched_buffer_offsets){
            place_in_arena(op, op->base[SCHED_IN]), place_in_arena(op, op->base[SCHED_OUT])};
    op->began = clock_ticks();
}

static void complete(comm_op *op, uint32_t step)
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

static weft_status run_step(comm_op *op, uint32_t step)
{
    const sched_step *s = &op->program.step[step];
    const sched_place *place = &op->program.place[s->place];
    comm_link *l = op->channel->link;
    if (s->what == SCHED_STORE || op->attached) { /* all but stores are the device's */
        uint32_t peer;
        weft_status st = WEFT_OK;
        if (op->attached && s->what == SCHED_STORE)
            st = comm_import_peer_confirm(op, &peer);
        if (st != WEFT_OK)
            return comm_op_fail(op, peer, st);
        if (s->what == SCHED_STORE)
            comm_staging_store(op, step);
        complete(op, step);
        return WEFT_OK;
    }
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
        comm_code_run(op->code, sched_request_of(op->schedule), s, l->to, l->from,
                      op->times ? *op->times : 1);
    else
        comm_reduce_run(&(comm_reduce_job){op->kernel, op->redop, op->size, s->nto, s->nfrom, l->to,
                                           l->from, s->bytes / op->size});
    complete(op, step);
    return WEFT_OK;
}

static weft_status post_whole(comm_op *op, uint32_t lane, const sched_step *s, int sending)
{
    comm_link *link = op->channel->link;
    weft_conn *conn = op->channel->wire[op->program.lane[lane].peer].conn;
    char *memory = s->bytes ? comm_op_resolve(op, &op->program.place[s->place], s->bytes) : NULL;
    return sending ? PLUGIN_POLL(link->table, send, conn, memory, s->bytes, link->region, 0)
                   : PLUGIN_POLL(link->table, recv, conn, memory, s->bytes, link->region, 0);
}

/* Posts the next send (or receive) of a lane if it is ready; on a checked link a part of it.
 * *posted: there may be another one to post now. */
static weft_status post(comm_op *op, uint32_t lane, int sending, int *posted)
{
    const sched_lane *l = &op->program.lane[lane];
    comm_lane_state *state = &op->lane[lane];
    uint32_t *at = sending ? &state->send_posted : &state->recv_posted;
    *posted = 0;
    if (*at == (sending ? l->sends : l->recvs))
        return WEFT_OK;
    uint32_t step = op->program.order[(sending ? l->send : l->recv) + *at];
    if (op->need[step])
        return WEFT_OK;
    const sched_step *s = &op->program.step[step];
    const comm_checked *checked = op->channel->wire[l->peer].out;
    bool whole = true;
    weft_status st = checked ? comm_checked_post(op, lane, s, sending, &whole)
                             : post_whole(op, lane, s, sending);
    if (st == WEFT_BUSY) { /* its queue is full: retry after a completion */
        op->dirty |= COMM_POST;
        return WEFT_OK;
    }
    if (st != WEFT_OK)
        return comm_op_fail(op, l->peer, st);
    *at += whole;
    *posted = whole || !sending || checked->post_at == s->bytes;
    if (!*posted) /* the link moves this piece while the next one is read */
        op->dirty |= COMM_POST_MORE;
    return WEFT_OK;
}

/* Receives first: the earlier a receive is posted, the less is buffered. */
static weft_status post_all(comm_op *op)
{
    op->dirty = 0;
    for (uint32_t i = 0; i < op->program.lanes; i++)
        for (int sending = 0; sending < 2; sending++) {
            int posted;
            do {
                weft_status st = post(op, i, sending, &posted);
                if (st != WEFT_OK)
                    return st;
            } while (posted);
        }
    return WEFT_OK;
}

/* A count of progress() that cannot be. */
static weft_status miscounted(comm_op *op, uint32_t peer, int sending, uint64_t now, uint64_t seen,
                              uint64_t posted)
{
    const char *const what = sending ? "sends" : "receives", *name, *path;
    const comm_link *l = op->channel->link;
    if (!host_call_whose(l->table, &name, &path))
        name = l->component->name;
    const unsigned long long counts = now, before = seen, all = posted;
    (void)!err_fail_in(WEFT_INTERNAL, ERR_PLUGIN, name,
                       "its progress() counts %llu finished %s; %s %llu", counts, what,
                       now < seen ? "its last call counted more, and a count never falls:"
                                  : "so many were not posted on this connection, only",
                       now < seen ? before : all);
    return comm_op_fail(op, peer, WEFT_INTERNAL);
}

/* Completes the steps of a lane that the link has finished since the last call. */
static weft_status settle(comm_op *op, uint32_t lane, int sending, uint64_t now)
{
    const sched_lane *l = &op->program.lane[lane];
    comm_lane_state *state = &op->lane[lane];
    comm_wire *w = &op->channel->wire[l->peer];
    uint64_t *seen = sending ? &w->sent : &w->received;
    uint32_t *done = sending ? &state->send_done : &state->recv_done;
    const comm_checked *checked = sending ? w->out : w->in;
    uint32_t posted = sending ? state->send_posted : state->recv_posted;
    uint64_t most = checked ? checked->posted : *seen + posted - *done;
    if (now - *seen > most - *seen)
        return miscounted(op, l->peer, sending, now, *seen, most);
    for (; *seen < now; ++*seen) {
        uint32_t step = op->program.order[(sending ? l->send : l->recv) + *done];
        bool whole = true;
        weft_status st =
            checked ? comm_checked_settle(op, lane, &op->program.step[step], sending, &whole)
                    : WEFT_OK;
        if (st != WEFT_OK)
            return comm_op_fail_at_once(op, l->peer, st);
        if (!whole)
            continue;
        ++*done;
        complete(op, step);
    }
    return WEFT_OK;
}

static weft_status poll_all(comm_op *op, int *moved)
{
    const weft_link_table *table = op->channel->link->table;
    for (uint32_t i = 0; i < op->program.lanes; i++) {
        if (comm_lane_is_idle(op, i))
            continue;
        comm_wire *w = &op->channel->wire[op->program.lane[i].peer];
        uint64_t sent = w->sent, received = w->received;
        weft_status st = PLUGIN_CALL(table, progress, w->conn, 0, &sent, &received);
        if (st == WEFT_BUSY)
            continue;
        if (st != WEFT_OK)
            return comm_op_fail(op, op->program.lane[i].peer, st);
        *moved |= sent != w->sent || received != w->received;
        st = settle(op, i, 1, sent);
        if (st == WEFT_OK)
            st = settle(op, i, 0, received);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

/* Completes fetches that the device has finished since the last call; false: the compute stream has
 * not reached the start. */
static bool take_fetched(comm_op *op, int *moved)
{
    if (!comm_staging_is_open(op))
        return false;
    for (uint32_t end = comm_staging_fetched(op); op->staged->seen < end; *moved = 1)
        complete(op, op->staged->first_fetch + op->staged->seen++);
    return true;
}

static weft_status advance(comm_op *op, int *moved)
{
    int again = 1;
    if (op->staged && !take_fetched(op, moved))
        return WEFT_OK;
    for (uint32_t round = 0; round < ROUNDS && again && op->left; round++) {
        again = 0;
        weft_status st = op->dirty ? post_all(op) : WEFT_OK;
        if (st == WEFT_OK)
            st = poll_all(op, &again);
        again |= op->dirty & COMM_POST_MORE;
        if (st == WEFT_OK && op->ready_head < op->ready_tail) {
            st = run_step(op, op->ready[op->ready_head++]);
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
    uint32_t most = l->table->channels ? l->table->channels : UINT32_MAX;
    for (comm_op **at = &l->waiting; *at && l->actives < most;) {
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
    atomic_store_explicit(&l->sent, sent + sched_bytes_sent(op->schedule), memory_order_relaxed);
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
        weft_status st = advance(op, moved);
        if (st != WEFT_OK)
            return st;
        if (op->left)
            continue;
        finish(l, i);
        *moved = 1;
    }
    return WEFT_OK;
}
