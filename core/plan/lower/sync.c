/* plan/lower/sync.c: gradient sums in buckets that overlap the backward pass.
 *
 * Backward finishes blocks last to first, and a block's gradients are contiguous, so the finished
 * range grows downwards. When it reaches the bucket size its all-reduce starts; the wait is at the
 * end of the step, before the norm. A tied parameter belongs to its first block and is ready after
 * the backward of its last user. Cost: each gradient once, 2 (n-1)/n of its bytes per rank.
 *
 * In a block that is sharded over a mesh axis each group is a bucket. It is first summed by a
 * reduce-scatter over that axis; then only the own slice is summed over the other axes. */
#include "plan/lower/sync.h"

#include "base/err.h"
#include "plan/collective.h"
#include "plan/emit.h"

#include <stdlib.h>

/* --- sums of each parameter: mesh axes, and when its gradient is ready --- */

static const char *axis_name(const plan_builder *b, uint32_t axis)
{
    return axis < FIRST_GROUP ? b->g->mesh->name[axis] : b->groups->at[axis - FIRST_GROUP].name;
}

/* Read what strategies (overrides: 0) or the placement (1) set for a parameter's sums. */
static weft_status read_syncs(const plan_builder *b, const plan_edit_state *e, plan_flat_param *p,
                              struct plan_sync_state *s, bool overrides)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < e->syncs.n; i++) {
        const plan_sync_edit *x = &e->syncs.at[i];
        uint64_t bit = (uint64_t)1 << x->mesh_axis;
        if (x->overrides != overrides || !graph_glob_match_role(x->glob, p->name, p->role))
            continue;
        if (seen & bit)
            return err_fail(WEFT_USAGE, "the gradient of %s is summed over %s twice, by %s as well",
                            p->name, axis_name(b, x->mesh_axis), x->owner);
        seen |= bit;
        p->never_axes |= x->when == WEFT_SYNC_NEVER ? bit : 0;
        if (x->when == WEFT_SYNC_NEVER)
            continue;
        p->sum_axes |= bit;
        p->every_axes &= ~bit;
        p->every_axes |= x->when == WEFT_SYNC_EVERY ? bit : 0;
        uint64_t elements = x->bucket_bytes / b->f->grad_size;
        if (!s->bucket_elements || elements < s->bucket_elements)
            s->bucket_elements = elements ? elements : 1;
    }
    return WEFT_OK;
}

static weft_status find_axes(const plan_builder *b, const plan_edit_state *e, plan_flat_param *p,
                             struct plan_sync_state *s)
{
    for (int overrides = 0; overrides < 2; overrides++) {
        weft_status st = read_syncs(b, e, p, s, overrides);
        if (st != WEFT_OK)
            return st;
    }
    for (uint32_t a = 0; a < b->g->mesh->n; a++)
        if ((p->partial_axes & ~p->sum_axes & ~p->never_axes) >> a & 1)
            return err_fail(
                WEFT_USAGE,
                "the gradient of %s is a partial sum over the mesh axis %s, and no strategy "
                "says when it is summed",
                p->name, b->g->mesh->name[a]);
    uint64_t groups = p->sum_axes >> FIRST_GROUP << FIRST_GROUP;
    if (groups ? !plan_flat_shared(b->f, b->stages, p->block)
               : plan_flat_shared(b->f, b->stages, p->block))
        return err_fail(
            WEFT_USAGE,
            groups ? "the gradient of %s must be summed over a group, but only one stage uses it"
                   : "%s is used by several stages, and no strategy says when its "
                     "gradients are summed over them",
            p->name);
    p->sum_axes = (p->sum_axes & p->partial_axes) | groups; /* not partial: nothing to sum */
    p->every_axes &= p->sum_axes;
    if (p->sum_axes & p->never_axes)
        return err_fail(
            WEFT_USAGE,
            "the gradient of %s must be summed over a mesh axis, and another edit says never",
            p->name);
    p->cut_axes |= p->never_axes & p->partial_axes; /* for the norm: coordinates differ */
    return WEFT_OK;
}

/* Does the edit leave gradients unsummed? */
static bool never_summed(const plan_flat *f, const plan_sync_edit *x)
{
    for (uint32_t i = 0; x->when == WEFT_SYNC_NEVER && i < f->params.n; i++) {
        const plan_flat_param *p = &f->params.at[i];
        if ((p->never_axes & p->partial_axes) >> x->mesh_axis & 1 &&
            graph_glob_match_role(x->glob, p->name, p->role))
            return true;
    }
    return false;
}

/* Each coordinate of an axis over which gradients are never summed (WEFT_SYNC_NEVER) trains
 * separate parameters, so results depend on the axis' size. That must be intended: a periodic list
 * synchronizes the parameters, or the strategy states the effect. The user is told in any case. */
static weft_status check_unsummed(const plan_flat *f, plan_edit_state *e)
{
    for (uint32_t i = 0; i < e->syncs.n; i++) {
        const plan_sync_edit *x = &e->syncs.at[i];
        if (!never_summed(f, x) || plan_edits_has_noted(e, x->owner))
            continue;
        const char *axis = e->s->mesh.name[x->mesh_axis];
        if (!e->lists.n)
            return err_fail(
                WEFT_USAGE,
                "%s: sync() with WEFT_SYNC_NEVER leaves gradients over the mesh axis %s "
                "unsummed, no periodic_list() synchronizes the parameters, and changes_results() "
                "was not called: each coordinate would train a different model. Sum the gradients, "
                "add a periodic list, or call changes_results()",
                x->owner, axis);
        plan_edits_note_change(
            e, pool_printf(e->pool, "%s: gradients are never summed over %s", x->owner, axis));
    }
    return WEFT_OK;
}

weft_status plan_sync_prepare(plan_builder *b)
{
    plan_edit_state *e = b->edits;
    struct plan_sync_state *s = pool_alloc(&b->p->pool, sizeof *s);
    b->sync = s;
    for (uint32_t i = 0; i < b->f->params.n; i++) {
        weft_status st = find_axes(b, e, &b->f->params.at[i], s);
        if (st != WEFT_OK)
            return st;
        b->p->has_buckets |= b->f->params.at[i].sum_axes != 0;
    }
    return check_unsummed(b->f, e);
}

/* --- buckets --- */

uint32_t plan_grads_channel(const plan_builder *b, uint32_t axis)
{
    if (axis < FIRST_GROUP)
        return plan_channel_number(b->p, "grads", axis);
    const graph_group *k = &b->groups->at[axis - FIRST_GROUP];
    return plan_channel_some(b->p, k->name, k->mesh_axis, k->coords, k->n);
}

/* The next axis for a sharded block; `c` is the collective of the whole group. */
static uint32_t next_of_group(const plan_builder *b, const plan_bucket *k, plan_collective *c)
{
    const plan_flat_block *fb = &b->f->blocks.at[b->f->groups.at[k->group - 1].block];
    plan_flat_slice own =
        plan_flat_own(b->f, k->group - 1, FLAT_GRADS, b->f->grads, b->f->grad_size);
    bool scatter = k->axes >> fb->axis & 1;
    c->in = c->out = own.at;
    c->shift_axis = fb->axis;
    c->out_shift = own.shift;
    c->in_shift = scatter ? 0 : own.shift;
    c->kind = scatter ? WEFT_REDUCE_SCATTER : WEFT_ALL_REDUCE;
    c->count /= scatter ? 1 : fb->parts;
    return scatter ? fb->axis : (uint32_t)__builtin_ctzll(k->axes);
}

static weft_status start_next_sum(plan_builder *b, plan_list *l, plan_bucket *k)
{
    plan *p = b->p;
    uint32_t a = (uint32_t)__builtin_ctzll(k->axes);
    plan_collective c = {.kind = WEFT_ALL_REDUCE,
                         .redop = WEFT_SUM,
                         .dtype = b->g->grad_dtype,
                         .count = k->end - k->first};
    c.in = c.out = b->f->grads + plan_flat_index(b->f, k->first, FLAT_GRADS) * b->f->grad_size;
    if (k->group)
        a = next_of_group(b, k, &c);
    k->axes &= ~((uint64_t)1 << a);
    c.channel = plan_grads_channel(b, a);
    c.name = pool_printf(&p->pool, "%s of gradients %llu-%llu", sched_kind_name(c.kind),
                         (unsigned long long)k->first, (unsigned long long)k->end);
    uint32_t number = 0;
    plan_compress_sum(b, &c, a, false);
    l->interval = k->interval;
    weft_status st = plan_emit_start(b, l, &c, 0, &number);
    l->interval = 0;
    k->pending = st == WEFT_OK ? number + 1 : 0;
    return st;
}

/* Wait for the bucket on its last axis, axis by axis. Its scratch is free from then on. */
weft_status plan_sync_finish(plan_builder *b, plan_list *l, plan_bucket *k)
{
    while (k->pending) {
        l->interval = k->interval;
        plan_emit_wait(b, l, k->pending - 1, 0);
        l->interval = k->pending = 0;
        weft_status st = k->axes ? start_next_sum(b, l, k) : WEFT_OK;
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

/* Maximum number of buckets in flight: enough to keep the links busy, few enough to keep their
 * scratch small. */
#define BUCKETS_IN_FLIGHT 4u

static weft_status start_chunk(plan_builder *b, plan_list *l, plan_bucket k)
{
    struct plan_sync_state *s = b->sync;
    uint32_t oldest = s->buckets.n, pending = 0;
    for (uint32_t i = s->buckets.n; i-- > 0;)
        if (s->buckets.at[i].pending) {
            pending++;
            oldest = i;
        }
    weft_status st = WEFT_OK;
    if (k.axes && pending >= BUCKETS_IN_FLIGHT)
        st = plan_sync_finish(b, l, &s->buckets.at[oldest]);
    if (st == WEFT_OK && k.axes)
        st = start_next_sum(b, l, &k);
    *vec_push(&s->buckets) = k;
    return st;
}

/* Start the open bucket in chunks of the bucket size, the last block's elements first. */
weft_status plan_sync_flush(plan_builder *b, plan_list *l)
{
    struct plan_sync_state *s = b->sync;
    plan_bucket k = s->open;
    s->open = (plan_bucket){0};
    uint64_t max = k.axes ? s->bucket_elements : UINT64_MAX;
    while (k.end > k.first) {
        uint64_t n = k.end - k.first;
        uint64_t chunks = n / max + (n % max != 0);
        uint64_t take = (n / chunks + 31) / 32 * 32; /* equal, aligned chunks */
        uint64_t first = take < n ? k.end - take : k.first;
        plan_bucket part = k;
        part.first = first;
        weft_status st = start_chunk(b, l, part);
        if (st != WEFT_OK)
            return st;
        k.end = first;
    }
    return WEFT_OK;
}

static weft_status grow(plan_builder *b, plan_list *l, const plan_flat_param *p, uint64_t end)
{
    struct plan_sync_state *s = b->sync;
    bool joins = s->open.end > s->open.first && s->open.first == end &&
                 s->open.axes == p->sum_axes && s->open.interval == p->interval &&
                 s->open.not_owned == p->not_owned;
    if (!joins) {
        weft_status st = plan_sync_flush(b, l);
        if (st != WEFT_OK)
            return st;
        s->open = (plan_bucket){.first = end,
                                .end = end,
                                .axes = p->sum_axes,
                                .interval = p->interval,
                                .not_owned = p->not_owned};
    }
    s->open.first = p->first;
    if (p->sum_axes && s->open.end - s->open.first >= s->bucket_elements)
        return plan_sync_flush(b, l);
    return WEFT_OK;
}

weft_status plan_sync_group(plan_builder *b, plan_list *l, uint32_t group, uint64_t axes)
{
    const plan_flat_group *x = &b->f->groups.at[group];
    return start_chunk(b, l,
                       (plan_bucket){.first = x->at[0],
                                     .end = x->at[0] + x->count,
                                     .axes = axes,
                                     .group = 1 + group,
                                     .interval = x->interval,
                                     .not_owned = x->not_owned});
}

static weft_status bucket_block(plan_builder *b, plan_list *l, uint32_t fb)
{
    const plan_flat_block *k = &b->f->blocks.at[fb];
    uint64_t end = k->end;
    weft_status st = WEFT_OK;
    for (uint32_t i = k->level ? k->groups : 0; st == WEFT_OK && i-- > 0;)
        st =
            plan_sync_group(b, l, k->first_group + i, b->f->groups.at[k->first_group + i].sum_axes);
    for (uint32_t i = k->level ? 0 : k->params; st == WEFT_OK && i-- > 0;) {
        const plan_flat_param *p = &b->f->params.at[k->first_param + i];
        st = grow(b, l, p, end);
        end = p->first;
    }
    return st;
}

weft_status plan_sync_work_done(plan_list_builder *w, uint32_t at)
{
    for (uint32_t i = w->b->f->blocks.n; i-- > 0;)
        if (w->grads_done[i] == at + 1 && w->b->f->blocks.at[i].level < FLAT_GRADS) {
            weft_status st = bucket_block(w->b, w->l, i);
            if (st != WEFT_OK)
                return st;
        }
    return WEFT_OK;
}

void plan_sync_free(plan_builder *b)
{
    free(b->sync ? b->sync->buckets.at : NULL);
}
