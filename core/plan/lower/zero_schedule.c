/* plan/lower/zero_schedule.c: ZeRO: when sharded buffers are gathered, reduced and freed.
 *
 * A block's state, gradients and parameters may be sharded, each level including the previous one;
 * coordinate c of the axis owns slice c of each group (layout.c).
 *
 *   state       gradients are unsharded; when final, a reduce-scatter leaves the own slice summed
 *               (sync.c). The update runs on it, and an all-gather restores the parameters, one
 *               group while the next one is updated.
 *   gradients   a block's gradients are unsharded from the first work of a micro-batch that adds
 *               to them until their reduce-scatter, which overlaps the next work; slices are then
 *               added to those of the previous micro-batches.
 *   parameters  a block's are gathered before a work that reads them, `ahead` works in advance,
 *               and freed after it. If the next reader comes before the gather would have to
 *               start again, they stay: the last block's from forward to backward.
 *
 * Cost per micro-batch for parameters of S bytes over n ranks: S (n-1)/n sent for gradients, twice
 * that for parameters. Loses against unsharded ones if micro-batches are many and short, since each
 * moves everything. */
#include "plan/lower/walk.h"

#include "plan/collective.h"
#include "plan/emit.h"
#include "plan/lower/sync.h"

#include <stdlib.h>
#include <string.h>

#define GATHERS_IN_FLIGHT 4u /* of updated parameters */
#define REDUCED_AT_ONCE 2u   /* blocks' gradients of one micro-batch */

/* --- a list under construction --- */

typedef struct gather_span { /* a block's gathered parameters */
    uint32_t block;
    uint32_t start, first, last; /* works: before which the gather starts; first and last reader */
    uint32_t number;             /* of the first group's collective */
    uint64_t place;              /* offset in the zone */
} gather_span;

typedef struct reduction { /* of a block's gradients of one micro-batch */
    uint32_t block, micro_batch, number;
    bool adding;
} reduction;

struct zero_walk {
    VEC(gather_span) spans; /* by start */
    uint32_t next;
    VEC(uint32_t) open; /* started and not freed */
    uint32_t *last_add; /* [flat block][micro-batch] 1 + the last work that adds to its gradients */
    uint64_t *whole_at; /* [flat block][micro-batch] 1 + their offset in the zone, unsharded */
    uint32_t *left;     /* [flat block] micro-batches that are not in the accumulator yet */
    uint32_t *clear;    /* [flat block] 1 + the segment that clears the padding between tensors */
    bool *begun;        /* [flat block] the accumulator has a micro-batch already */
    VEC(reduction) pending;
};

static uint64_t whole_bytes(const plan_flat_block *k, uint64_t size)
{
    return (k->end - k->first) * size;
}

/* Called for each flat block whose parameters (grads: gradients) a work uses. */
typedef weft_status (*visitor)(plan_list_builder *w, uint32_t flat_block, uint32_t at);

static weft_status visit(plan_list_builder *w, uint32_t at, bool grads, visitor what)
{
    const plan_block_pass *x = &w->works[at];
    const plan_lowered_block *r = plan_walk_lowered(w, x);
    int own = plan_flat_block_of(w->b->f, w->b->g->blocks.at[x->block]);
    weft_status st = WEFT_OK;
    if (own >= 0 && (grads ? r->grads : r->params))
        st = what(w, (uint32_t)own, at);
    for (uint32_t i = 0; st == WEFT_OK && i < r->ninout; i++)
        if (!r->inout[i].tensor && (r->inout[i].grad != 0) == grads)
            st = what(w, r->inout[i].flat_block, at);
    return st;
}

/* Extend the stay that a work falls into, or add a new one. */
static weft_status note_reader(plan_list_builder *w, uint32_t block, uint32_t at)
{
    struct zero_walk *y = w->shard;
    const plan_flat_block *k = &w->b->f->blocks.at[block];
    uint32_t ahead = k->ahead ? k->ahead : 1;
    if (k->level < FLAT_PARAMS)
        return WEFT_OK;
    for (uint32_t i = y->spans.n; i-- > 0;) {
        gather_span *s = &y->spans.at[i];
        if (s->block != block)
            continue;
        if (at - s->last > ahead)
            break;
        s->last = at;
        return WEFT_OK;
    }
    uint32_t start = at > k->ahead ? at - k->ahead : 0;
    *vec_push(&y->spans) = (gather_span){.block = block, .start = start, .first = at, .last = at};
    return WEFT_OK;
}

static weft_status note_adder(plan_list_builder *w, uint32_t block, uint32_t at)
{
    if (w->b->f->blocks.at[block].level >= FLAT_GRADS)
        w->shard->last_add[(uint64_t)block * w->micro_batches + w->works[at].micro_batch] = at + 1;
    return WEFT_OK;
}

static int by_start(const void *x, const void *y)
{
    const gather_span *a = x, *b = y;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->block < b->block ? -1 : a->block > b->block;
}

weft_status plan_zero_begin(plan_list_builder *w)
{
    struct zero_walk *y = w->shard = pool_alloc(&w->memory, sizeof *y);
    uint64_t blocks = w->b->f->blocks.n + 1;
    y->last_add = pool_array(&w->memory, blocks * w->micro_batches, sizeof *y->last_add);
    y->whole_at = pool_array(&w->memory, blocks * w->micro_batches, sizeof *y->whole_at);
    y->left = pool_array(&w->memory, blocks, sizeof *y->left);
    y->clear = pool_array(&w->memory, blocks, sizeof *y->clear);
    y->begun = pool_array(&w->memory, blocks, sizeof *y->begun);
    if (!w->b->f->groups.n)
        return WEFT_OK;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < w->nworks; i++) {
        st = visit(w, i, false, note_reader);
        st = st != WEFT_OK ? st : visit(w, i, true, note_adder);
    }
    for (uint64_t i = 0; i < w->b->f->blocks.n; i++)
        for (uint32_t micro_batch = 0; micro_batch < w->micro_batches; micro_batch++)
            y->left[i] += y->last_add[i * w->micro_batches + micro_batch] != 0;
    if (y->spans.n)
        qsort(y->spans.at, y->spans.n, sizeof *y->spans.at, by_start);
    return st;
}

void plan_zero_free(plan_list_builder *w)
{
    if (!w->shard)
        return;
    free(w->shard->spans.at);
    free(w->shard->open.at);
    free(w->shard->pending.at);
}

/* --- parameters --- */

static weft_status start_gather(plan_builder *b, plan_list *l, uint32_t group, uint64_t from,
                                uint64_t moved, uint64_t to, uint32_t micro_batch, uint32_t *number)
{
    const plan_flat_group *x = &b->f->groups.at[group];
    const plan_flat_block *k = &b->f->blocks.at[x->block];
    plan_collective c = {.channel = plan_channel_number(b->p, "params", k->axis),
                         .kind = WEFT_ALL_GATHER,
                         .dtype = b->g->compute,
                         .count = x->count,
                         .in = from,
                         .in_shift = moved,
                         .out = to,
                         .shift_axis = k->axis};
    c.name = pool_printf(&b->p->pool, "all-gather of parameters %llu-%llu",
                         (unsigned long long)x->at[0], (unsigned long long)(x->at[0] + x->count));
    return plan_emit_start(b, l, &c, micro_batch, number);
}

static weft_status start_span(plan_list_builder *w, gather_span *s, uint32_t micro_batch)
{
    plan_builder *b = w->b;
    const plan_flat *f = b->f;
    const plan_flat_block *k = &f->blocks.at[s->block];
    s->place = plan_space_take(&b->zones.activations, whole_bytes(k, f->compute_size));
    for (uint32_t i = 0; i < k->groups; i++) {
        uint32_t g = k->first_group + i, number;
        plan_flat_slice own = plan_flat_own(f, g, FLAT_PARAMS, f->compute, f->compute_size);
        uint64_t to =
            b->zones.zone + s->place + (f->groups.at[g].at[0] - k->first) * f->compute_size;
        weft_status st = start_gather(b, w->l, g, own.at, own.shift, to, micro_batch, &number);
        if (st != WEFT_OK)
            return st;
        s->number = i ? s->number : number;
    }
    return WEFT_OK;
}

static weft_status gather_for(plan_list_builder *w, uint32_t at)
{
    struct zero_walk *y = w->shard;
    for (; y->next < y->spans.n && y->spans.at[y->next].start <= at; y->next++) {
        gather_span *s = &y->spans.at[y->next];
        *vec_push(&y->open) = y->next;
        weft_status st = start_span(w, s, w->works[s->first].micro_batch);
        if (st != WEFT_OK)
            return st;
    }
    for (uint32_t i = 0; i < y->open.n; i++) {
        const gather_span *s = &y->spans.at[y->open.at[i]];
        if (s->first != at)
            continue;
        for (uint32_t g = 0; g < w->b->f->blocks.at[s->block].groups; g++)
            plan_emit_wait(w->b, w->l, s->number + g, w->works[at].micro_batch);
        w->b->bases.params[s->block] = w->b->zones.zone + s->place;
    }
    return WEFT_OK;
}

static void give_parameters(plan_list_builder *w, uint32_t at)
{
    struct zero_walk *y = w->shard;
    const plan_flat *f = w->b->f;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < y->open.n; i++) {
        const gather_span *s = &y->spans.at[y->open.at[i]];
        if (s->last == at)
            plan_space_give(&w->b->zones.activations, s->place,
                            whole_bytes(&f->blocks.at[s->block], f->compute_size));
        else
            y->open.at[kept++] = y->open.at[i];
    }
    y->open.n = kept;
}

/* --- gradients --- */

/* Make the segment that zeroes the padding between a block's tensors, which is summed and squared
 * too. */
static weft_status make_clear(plan_builder *b, const plan_flat_block *k, uint32_t *out)
{
    uint32_t seg = plan_segment_begin(b->p, "clear padding");
    for (uint32_t i = 0; i < k->params; i++) {
        const plan_flat_param *p = &b->f->params.at[k->first_param + i];
        uint64_t from = p->first + p->count, to = i + 1 < k->params ? p[1].first : k->end;
        const plan_ref where = {BASE_GRAD, 0, (from - k->first) * b->f->grad_size};
        weft_status st =
            to > from ? plan_segment_add_fill(b->p, seg, b->g->grad_dtype, to - from, 0, where)
                      : WEFT_OK;
        if (st != WEFT_OK)
            return st;
    }
    *out = 1 + plan_segment_end(b->p, seg, BASE_FIRST);
    return WEFT_OK;
}

/* Add the own slice of a reduction to that of the previous micro-batches. */
static weft_status accumulate(plan_builder *b, plan_list *l, uint32_t group, uint64_t from,
                              uint32_t micro_batch)
{
    const plan_flat_block *k = &b->f->blocks.at[b->f->groups.at[group].block];
    uint64_t slice = b->f->groups.at[group].count / k->parts;
    const plan_flat_slice own =
        plan_flat_own(b->f, group, FLAT_GRADS, b->f->grads, b->f->grad_size);
    const weft_operand part = {b->g->grad_dtype, 1, 0, 0, {(int64_t)slice}}, io[2] = {part, part};
    const plan_ref refs[2] = {{BASE_FIRST, 0, 0}, {BASE_FIRST + 1, 0, 0}};
    const weft_opspec op = plan_unary_spec("accumulate", io, WEFT_SPEC_ACCUMULATE);
    const uint64_t bases[BASE_FIRST + 2] = {[BASE_FIRST] = from, own.at};
    weft_status st = plan_emit_op(b->p, l, &op,
                                  &(plan_emission){.segment = "accumulate",
                                                   .refs = refs,
                                                   .bases = bases,
                                                   .nbases = BASE_FIRST + 2,
                                                   .micro_batch = micro_batch});
    if (st == WEFT_OK)
        plan_list_shift(b->p, l, BASE_FIRST, k->axis, slice * b->f->grad_size);
    return st;
}

/* Wait for the oldest reduction and free its buffer. After the last micro-batch of a block, start
 * the sums over the other axes. */
static weft_status finish_reduction(plan_list_builder *w)
{
    plan_builder *b = w->b;
    struct zero_walk *y = w->shard;
    const reduction r = y->pending.at[0];
    const plan_flat_block *k = &b->f->blocks.at[r.block];
    memmove(y->pending.at, y->pending.at + 1, --y->pending.n * sizeof r);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < k->groups; i++) {
        plan_emit_wait(b, w->l, r.number + i, r.micro_batch);
        if (r.adding)
            st = accumulate(b, w->l, k->first_group + i, b->p->collectives.at[r.number + i].in,
                            r.micro_batch);
    }
    plan_space_give(&b->zones.activations,
                    y->whole_at[(uint64_t)r.block * w->micro_batches + r.micro_batch] - 1,
                    whole_bytes(k, b->f->grad_size));
    if (--y->left[r.block])
        return st;
    for (uint32_t i = k->groups; st == WEFT_OK && i-- > 0;) {
        const plan_flat_group *x = &b->f->groups.at[k->first_group + i];
        st = plan_sync_group(b, w->l, k->first_group + i, x->sum_axes & ~((uint64_t)1 << k->axis));
    }
    return st;
}

static bool is_pending(const plan_list_builder *w, uint32_t block)
{
    for (uint32_t i = 0; i < w->shard->pending.n; i++)
        if (w->shard->pending.at[i].block == block)
            return true;
    return false;
}

/* Allocate a block's gradient buffer, one per block: first wait for a reduction of an earlier
 * micro-batch. */
static weft_status take_gradients(plan_list_builder *w, uint32_t block, uint32_t at)
{
    plan_builder *b = w->b;
    const plan_flat_block *k = &b->f->blocks.at[block];
    uint64_t *place =
        &w->shard->whole_at[(uint64_t)block * w->micro_batches + w->works[at].micro_batch];
    if (k->level < FLAT_GRADS)
        return WEFT_OK;
    bool fresh = !*place;
    while (fresh && is_pending(w, block)) {
        weft_status st = finish_reduction(w);
        if (st != WEFT_OK)
            return st;
    }
    if (fresh)
        *place = 1 + plan_space_take(&b->zones.activations, whole_bytes(k, b->f->grad_size));
    b->bases.grads[block] = b->zones.zone + *place - 1;
    uint32_t seg = w->shard->clear[block] - 1;
    if (!fresh || !b->p->segments.at[seg].n)
        return WEFT_OK;
    uint64_t bases[BASE_FIRST] = {0};
    bases[BASE_GRAD] = b->bases.grads[block];
    plan_list_call(b->p, w->l, seg, bases, BASE_FIRST, w->works[at].micro_batch, "clear padding");
    return WEFT_OK;
}

weft_status plan_zero_before(plan_list_builder *w, uint32_t at)
{
    if (!w->b->f->groups.n)
        return WEFT_OK;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; w->train && st == WEFT_OK && !at && i < w->b->f->blocks.n; i++)
        if (w->b->f->blocks.at[i].level >= FLAT_GRADS)
            st = make_clear(w->b, &w->b->f->blocks.at[i], &w->shard->clear[i]);
    if (st == WEFT_OK)
        st = gather_for(w, at);
    return st != WEFT_OK ? st : visit(w, at, true, take_gradients);
}

/* Reduce the first micro-batch into the accumulator, later ones into the own slice of the
 * buffer. */
static weft_status start_reduction(plan_list_builder *w, uint32_t block, uint32_t micro_batch)
{
    plan_builder *b = w->b;
    plan_flat *f = b->f;
    const plan_flat_block *k = &f->blocks.at[block];
    reduction r = {block, micro_batch, 0, w->shard->begun[block]};
    uint64_t at =
        b->zones.zone + w->shard->whole_at[(uint64_t)block * w->micro_batches + micro_batch] - 1;
    for (uint32_t i = 0; i < k->groups; i++) {
        plan_flat_group *x = &f->groups.at[k->first_group + i];
        plan_collective c = {.channel = plan_grads_channel(b, k->axis),
                             .kind = WEFT_REDUCE_SCATTER,
                             .redop = WEFT_SUM,
                             .dtype = b->g->grad_dtype,
                             .count = x->count,
                             .in = at + (x->at[0] - k->first) * f->grad_size,
                             .shift_axis = k->axis,
                             .residual = x->residual};
        c.out = plan_flat_own(f, k->first_group + i, FLAT_GRADS, f->grads, f->grad_size).at;
        if (r.adding) {
            c.out = c.in;
            c.out_shift = x->count / k->parts * f->grad_size;
        }
        c.name =
            pool_printf(&b->p->pool, "reduce-scatter of gradients %llu-%llu",
                        (unsigned long long)x->at[0], (unsigned long long)(x->at[0] + x->count));
        uint32_t number;
        plan_compress_sum(b, &c, k->axis, r.adding);
        weft_status st = plan_emit_start(b, w->l, &c, micro_batch, &number);
        if (st != WEFT_OK)
            return st;
        x->residual = b->p->collectives.at[number].residual;
        r.number = i ? r.number : number;
    }
    w->shard->begun[block] = true;
    *vec_push(&w->shard->pending) = r;
    return WEFT_OK;
}

weft_status plan_zero_after(plan_list_builder *w, uint32_t at)
{
    struct zero_walk *y = w->shard;
    if (!w->b->f->groups.n)
        return WEFT_OK;
    give_parameters(w, at);
    weft_status st = WEFT_OK;
    uint32_t micro_batch = w->works[at].micro_batch;
    for (uint32_t i = w->b->f->blocks.n; st == WEFT_OK && w->works[at].backward && i-- > 0;) {
        if (y->last_add[(uint64_t)i * w->micro_batches + micro_batch] != at + 1)
            continue;
        while (st == WEFT_OK && y->pending.n >= REDUCED_AT_ONCE)
            st = finish_reduction(w);
        if (st == WEFT_OK)
            st = start_reduction(w, i, micro_batch);
    }
    return st;
}

weft_status plan_zero_finish(plan_list_builder *w)
{
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && w->shard->pending.n)
        st = finish_reduction(w);
    return st;
}

/* --- after the update --- */

typedef struct pending_gather {
    uint32_t collective, interval;
} pending_gather;

struct gather_queue {
    pending_gather at[GATHERS_IN_FLIGHT]; /* in starting order */
    uint32_t n;
};

static void finish_gathers(plan_builder *b, plan_list *l, uint32_t max)
{
    struct gather_queue *q = b->queue;
    while (q && q->n > max) {
        l->interval = q->at[0].interval;
        plan_emit_wait(b, l, q->at[0].collective, 0);
        l->interval = 0;
        memmove(q->at, q->at + 1, --q->n * sizeof *q->at);
    }
}

weft_status plan_zero_updated(plan_builder *b, plan_list *l, uint32_t group)
{
    const plan_flat *f = b->f;
    if (f->blocks.at[f->groups.at[group].block].level >= FLAT_PARAMS)
        return WEFT_OK;
    plan_flat_slice own = plan_flat_own(f, group, FLAT_PARAMS, f->compute, f->compute_size);
    uint32_t number;
    finish_gathers(b, l, GATHERS_IN_FLIGHT - 1);
    l->interval = f->groups.at[group].interval;
    weft_status st = start_gather(b, l, group, own.at, own.shift, own.at, 0, &number);
    l->interval = 0;
    if (st == WEFT_OK && !b->queue)
        b->queue = pool_alloc(&b->p->pool, sizeof *b->queue);
    if (st == WEFT_OK)
        b->queue->at[b->queue->n++] = (pending_gather){number, f->groups.at[group].interval};
    return st;
}

void plan_zero_gathered(plan_builder *b, plan_list *l)
{
    finish_gathers(b, l, 0);
}
