/* plan/lower/boundary.c: sends and receives between pipeline stages.
 *
 * An activation that a block on one stage produces and a block on another reads is sent: forward
 * the residual stream, backward its gradient. Both ends derive this from the same graph, without
 * communication. Each directed pair of stages has one channel for activations and one for
 * gradients, which never wait for each other.
 *
 * A receive starts one cell (the forward or backward of a chunk for one micro-batch) before the
 * cell that needs it, so that it overlaps computation; the first work that reads it waits for it. A
 * send starts after its work and is waited for before the next one on its channel; until then its
 * buffer stays allocated. Cost per boundary and micro-batch: one tensor of tokens x features each
 * way, and one more in memory on the receiving side. */
#include "plan/lower/walk.h"

#include "base/err.h"
#include "plan/collective.h"
#include "plan/emit.h"

#include <stdlib.h>
#include <string.h>

typedef struct transfer {
    weft_tensor tensor;
    uint32_t peer, channel;
    uint32_t made_in; /* block that produces it */
    bool send, backward;
} transfer;

typedef struct arrival { /* of one micro-batch */
    uint32_t transfer, micro_batch, work;
    uint32_t started; /* 1 + collective */
} arrival;

typedef struct departure {
    uint32_t collective, channel;
    uint64_t key;
} departure;

struct boundary {
    VEC(transfer) transfers;
    VEC(arrival) arrivals; /* in the order in which they start */
    uint32_t next;
    VEC(departure) sent; /* not yet waited for */
};

/* --- tensors and their stages --- */

typedef struct route {
    uint64_t readers; /* stages, as bits */
    uint32_t made_in;
    bool backward;
} route;

static route *find_routes(plan_list_builder *w)
{
    const plan_builder *b = w->b;
    const graph *g = b->g;
    route *r = pool_array(&w->memory, g->tensors.n + 1, sizeof *r);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        for (uint32_t k = 0; k < n->nout; k++) {
            route *x = &r[plan_root_of(b, n->out[k])];
            x->made_in = n->block;
            x->backward = n->phase != PHASE_FORWARD;
        }
        for (uint32_t k = 0; k < n->nin; k++)
            r[plan_root_of(b, n->in[k])].readers |= (uint64_t)1
                                                    << plan_stage_of(b->stages, n->block);
    }
    return r;
}

static uint32_t pair_channel(plan_builder *b, uint32_t from, uint32_t to, bool backward)
{
    const struct plan_stage_map *m = b->stages;
    const char *axis = b->p->spec->mesh.name[m->axis];
    const uint32_t both[2] = {from < to ? from : to, from < to ? to : from};
    char *name = pool_printf(&b->p->pool, "%s.%s %u to %u", axis,
                             backward ? "gradients" : "activations", from, to);
    return plan_channel_some(b->p, name, (uint32_t)m->axis, both, 2);
}

static void add_transfers(plan_list_builder *w, weft_tensor t, const route *r)
{
    const struct plan_stage_map *m = w->b->stages;
    uint32_t home = plan_stage_of(m, r->made_in);
    for (uint32_t s = 0; s < w->b->p->spec->mesh.size[m->axis]; s++) {
        if (s == home || !(r->readers >> s & 1) || (home != m->mine && s != m->mine))
            continue;
        bool send = home == m->mine;
        *vec_push(&w->boundary->transfers) =
            (transfer){t,    send ? s : home, pair_channel(w->b, home, s, r->backward), r->made_in,
                       send, r->backward};
    }
}

/* Order by producer: senders visit their blocks in the direction of the pass, and receivers post in
 * that order. */
static int by_producer(const void *x, const void *y)
{
    const transfer *a = x, *b = y;
    if (a->backward != b->backward)
        return a->backward - b->backward;
    if (a->made_in != b->made_in)
        return (a->made_in < b->made_in) == !a->backward ? -1 : 1;
    return a->tensor < b->tensor ? -1 : a->tensor > b->tensor;
}

static bool exchanges(const plan_lowered_block *r, weft_tensor t)
{
    uint32_t i = 0;
    while (i < r->ninout && r->inout[i].tensor != t)
        i++;
    return i < r->ninout;
}

/* Find the first work that reads each received tensor, for each micro-batch. */
static void find_arrivals(plan_list_builder *w)
{
    struct boundary *y = w->boundary;
    bool *seen = /* [tensor][micro-batch] */
        pool_array(&w->memory, (uint64_t)(w->b->g->tensors.n + 1) * w->micro_batches, sizeof *seen);
    uint32_t from = 0;
    for (uint32_t i = 0; i < w->nworks; i++) {
        if (i + 1 < w->nworks && w->works[i + 1].cell == w->works[i].cell)
            continue;
        for (uint32_t k = 0; k < y->transfers.n; k++) { /* cell [from, i] */
            const transfer *x = &y->transfers.at[k];
            uint64_t key = (uint64_t)x->tensor * w->micro_batches + w->works[i].micro_batch;
            uint32_t at = from;
            while (at <= i && !exchanges(plan_walk_lowered(w, &w->works[at]), x->tensor))
                at++;
            if (x->send || seen[key] || at > i)
                continue;
            seen[key] = true;
            *vec_push(&y->arrivals) = (arrival){k, w->works[i].micro_batch, at, 0};
        }
        from = i + 1;
    }
}

weft_status plan_boundary_prepare(plan_list_builder *w)
{
    const struct plan_stage_map *m = w->b->stages;
    w->boundary = pool_alloc(&w->memory, sizeof *w->boundary);
    if (m->axis < 0)
        return WEFT_OK;
    if (w->b->p->spec->mesh.size[m->axis] > 64)
        return err_fail(WEFT_UNSUPPORTED, "more than 64 stages");
    const route *r = find_routes(w);
    for (weft_tensor t = 1; t <= w->b->g->tensors.n; t++)
        if (graph_tensor_at(w->b->g, t)->kind == WEFT_T_ACTIVATION && w->b->live.root[t] == t)
            add_transfers(w, t, &r[t]);
    if (w->boundary->transfers.n)
        qsort(w->boundary->transfers.at, w->boundary->transfers.n, sizeof(transfer), by_producer);
    find_arrivals(w);
    return WEFT_OK;
}

void plan_boundary_free(plan_list_builder *w)
{
    if (!w->boundary)
        return;
    free(w->boundary->transfers.at);
    free(w->boundary->arrivals.at);
    free(w->boundary->sent.at);
}

/* --- entries --- */

static weft_status start(plan_list_builder *w, const transfer *x, uint32_t micro_batch,
                         uint64_t place, uint32_t *out)
{
    plan *p = w->b->p;
    const plan_channel *ch = &p->channels.at[x->channel];
    weft_shape local = graph_local_shape(w->b->g, x->tensor);
    plan_collective c = {.channel = x->channel,
                         .kind = x->send ? WEFT_SEND : WEFT_RECV,
                         .dtype = local.dtype,
                         .count = graph_shape_elements(&local),
                         .root = ch->coords[1] == x->peer,
                         .tag = (uint64_t)x->tensor << 32 | micro_batch};
    c.name = pool_printf(&p->pool, "%s %s of micro-batch %u %s stage %u",
                         x->send ? "send" : "receive", graph_tensor_at(w->b->g, x->tensor)->name,
                         micro_batch, x->send ? "to" : "from", x->peer);
    c.in = c.out = w->b->zones.zone + place;
    return plan_emit_start(w->b, w->l, &c, micro_batch, out);
}

/* Start the receives of all cells up to `cell`. */
static weft_status start_arrivals(plan_list_builder *w, uint32_t cell)
{
    struct boundary *y = w->boundary;
    for (; y->next < y->arrivals.n; y->next++) {
        arrival *a = &y->arrivals.at[y->next];
        if (w->works[a->work].cell > cell)
            return WEFT_OK;
        const transfer *x = &y->transfers.at[a->transfer];
        uint64_t at =
            plan_space_take(&w->b->zones.activations, graph_local_bytes(w->b->g, x->tensor));
        uint32_t number;
        w->place[(uint64_t)x->tensor * w->micro_batches + a->micro_batch] = 1 + at;
        weft_status st = start(w, x, a->micro_batch, at, &number);
        if (st != WEFT_OK)
            return st;
        a->started = 1 + number;
    }
    return WEFT_OK;
}

weft_status plan_boundary_before(plan_list_builder *w, uint32_t at)
{
    struct boundary *y = w->boundary;
    const plan_block_pass *x = &w->works[at];
    weft_status st = y->arrivals.n ? start_arrivals(w, x->cell + 1) : WEFT_OK;
    for (uint32_t i = y->next; st == WEFT_OK && i-- > 0;) {
        arrival *a = &y->arrivals.at[i];
        if (a->work == at && a->started) {
            plan_emit_wait(w->b, w->l, a->started - 1, a->micro_batch);
            a->started = 0;
        }
        if (w->works[a->work].cell < x->cell)
            break;
    }
    return st;
}

/* Wait for send `i`; its buffer is then freed unless this stage reads it later. */
static void finish_send(plan_list_builder *w, uint32_t i, uint32_t at)
{
    struct boundary *y = w->boundary;
    departure d = y->sent.at[i];
    memmove(&y->sent.at[i], &y->sent.at[i + 1], (--y->sent.n - i) * sizeof d);
    plan_emit_wait(w->b, w->l, d.collective, (uint32_t)(d.key % w->micro_batches));
    weft_tensor t = (weft_tensor)(d.key / w->micro_batches);
    if (--w->held[d.key] == 0 && w->last_use[d.key] <= at)
        plan_space_give(&w->b->zones.activations, w->place[d.key] - 1,
                        graph_local_bytes(w->b->g, t));
}

weft_status plan_boundary_after(plan_list_builder *w, uint32_t at)
{
    struct boundary *y = w->boundary;
    const plan_block_pass *x = &w->works[at];
    for (uint32_t k = 0; k < y->transfers.n; k++) {
        const transfer *t = &y->transfers.at[k];
        if (!t->send || t->made_in != x->block || t->backward != x->backward)
            continue;
        for (uint32_t i = y->sent.n; i-- > 0;)
            if (y->sent.at[i].channel == t->channel)
                finish_send(w, i, at);
        departure d = {0, t->channel, (uint64_t)t->tensor * w->micro_batches + x->micro_batch};
        weft_status st = start(w, t, x->micro_batch, w->place[d.key] - 1, &d.collective);
        if (st != WEFT_OK)
            return st;
        w->held[d.key]++;
        *vec_push(&y->sent) = d;
    }
    return WEFT_OK;
}

void plan_boundary_finish(plan_list_builder *w)
{
    while (w->boundary->sent.n)
        finish_send(w, 0, w->nworks);
}
