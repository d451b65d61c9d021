/* plan/lower/sync.c: sums of gradients, in buckets, while backward still computes.
 *
 * Backward finishes blocks last to first, and a block's gradients are one range: so what is ready
 * grows downwards. When it reaches the bucket's size its all-reduce starts; the wait stands at the
 * end of the step, before the norm. A tied parameter belongs to its first block and is ready when
 * the last of its users has gone backward. Cost: every gradient once, 2 (n-1)/n of its bytes a
 * rank.
 *
 * Of a block that is cut over a mesh axis each group is a bucket. Over that axis it is summed by a
 * reduce-scatter, first; then the own slice alone goes over the other axes. */
#include "base/err.h"
#include "plan/build.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

uint32_t plan_channel_some(plan *p, const char *name, uint32_t mesh_axis, const uint32_t *coords,
                           uint32_t n)
{
    const spec *s = p->spec;
    for (uint32_t i = 0; i < p->channels.n; i++)
        if (!strcmp(p->channels.at[i].name, name))
            return i;
    uint32_t *copy = n ? pool_array(&p->pool, n, sizeof *copy) : NULL;
    if (n)
        memcpy(copy, coords, n * sizeof *copy);
    channel c = {.name = pool_text(&p->pool, name),
                 .mesh_axis = mesh_axis,
                 .ncoords = n,
                 .coords = copy,
                 .algorithm = s->axis_algorithm[mesh_axis],
                 .link = s->axis_link[mesh_axis]};
    c.layout = where_group(s, &p->pool, &(rank_group){mesh_axis, n, copy});
    *vec_push(&p->channels) = c;
    return p->channels.n - 1;
}

uint32_t plan_channel(plan *p, const char *what, uint32_t mesh_axis)
{
    char *name = pool_printf(&p->pool, "%s.%s", p->spec->mesh.name[mesh_axis], what);
    return plan_channel_some(p, name, mesh_axis, NULL, 0);
}

uint32_t plan_channel_size(const plan *p, uint32_t number)
{
    const channel *c = &p->channels.at[number];
    return c->coords ? c->ncoords : p->spec->mesh.size[c->mesh_axis];
}

/* In place as weft/coll.h means it: the smaller side lies at the own part of the larger. */
static bool in_place(const plan *p, const collective *c)
{
    uint64_t part = c->count / plan_channel_size(p, c->channel) * weft_dtype_size(c->dtype);
    bool own = c->shift_axis == p->channels.at[c->channel].mesh_axis;
    if (c->kind == WEFT_REDUCE_SCATTER)
        return c->in == c->out && own && !c->in_shift && c->out_shift == part;
    if (c->kind == WEFT_ALL_GATHER)
        return c->in == c->out && own && !c->out_shift && c->in_shift == part;
    return c->in == c->out && c->in_shift == c->out_shift;
}

void plan_request(const plan *p, const collective *c, uint32_t me, comm_request *out)
{
    const channel *ch = &p->channels.at[c->channel];
    const spec *s = p->spec;
    *out = (comm_request){.kind = c->kind, .redop = c->redop, .dtype = c->dtype, .me = me};
    out->count = c->count;
    out->ranks = plan_channel_size(p, c->channel);
    out->root = c->root;
    out->in_place = in_place(p, c);
    out->link_caps = where_caps(s, &s->links[ch->link]);
    out->staged = where_staged(s, &s->links[ch->link]);
    out->layout = ch->layout;
    const char *wanted = comm_rule(ch->algorithm, out);
    if (s->attached >> ch->mesh_axis & 1 && comm_may_map(wanted))
        out->link_caps |= WEFT_LINK_MAP;
    out->algorithm = plan_between_two(c) ? "auto" : wanted;
    out->cost = s->axis_cost[ch->mesh_axis];
    out->compress = c->compress;
    out->feedback = c->compress && s->feedback;
}

/* Scratch of what goes through host memory is there. */
space *scratch_space(builder *b, uint32_t number)
{
    const channel *ch = &b->p->channels.at[number];
    return where_staged(b->p->spec, &b->p->spec->links[ch->link]) ? &b->host : &b->comm;
}

/* Lists repeat themselves: what an equal collective needed, from the last few. */
static bool find_made(const plan *p, collective *c)
{
    uint32_t back = p->collectives.n < 64 ? p->collectives.n : 64;
    for (uint32_t i = 1; i <= back; i++) {
        const collective *o = &p->collectives.at[p->collectives.n - i];
        if (o->channel != c->channel || o->kind != c->kind || o->redop != c->redop ||
            o->dtype != c->dtype || o->root != c->root || o->count != c->count ||
            o->compress != c->compress || in_place(p, o) != in_place(p, c))
            continue;
        c->scratch_bytes = o->scratch_bytes;
        c->sent = o->sent;
        c->plain = o->plain;
        c->kept_bytes = o->kept_bytes;
        c->algorithm = o->algorithm;
        return true;
    }
    return false;
}

/* Bytes that a rank sends by the ring, which libraries are measured by. */
static uint64_t sent_by_library(const collective *c, uint32_t n)
{
    uint64_t bytes = c->count * weft_dtype_size(c->dtype), part = bytes / n;
    switch (c->kind) {
    case WEFT_ALL_REDUCE: return 2 * (bytes - part);
    case WEFT_RECV: return 0;
    case WEFT_SEND:
    case WEFT_SHIFT:
    case WEFT_BROADCAST: return bytes;
    default: return bytes - part;
    }
}

/* Ranks of a large group need what their neighbours need, but for the first few and the last; of
 * several machines, but for all of each that is the first of its size. ask: [n] */
static void ranks_to_ask(const comm_layout *l, uint32_t n, bool *ask)
{
    for (uint32_t i = 0; i < n; i++)
        ask[i] = n <= 16 || i < 8 || i + 1 == n;
    if (n <= 16 || !l || l->machines < 2)
        return;
    uint32_t *size = mem_alloc((n + 1 + l->machines) * sizeof *size), *first = size + l->machines;
    for (uint32_t i = 0; i < n; i++)
        size[l->machine[i]]++;
    for (uint32_t m = l->machines; m-- > 0;)
        first[size[m]] = m;
    for (uint32_t i = 0; i < n; i++)
        ask[i] |= first[size[l->machine[i]]] == l->machine[i];
    free(size);
}

/* What rank `me` needs; the first that is asked says how it is done. */
static weft_status ask_rank(plan *p, collective *c, uint32_t me)
{
    comm_schedule *mine;
    comm_request r;
    plan_request(p, c, me, &r);
    r.algorithm = c->algorithm ? c->algorithm : r.algorithm; /* auto is alike on all */
    weft_status s = comm_schedule_make(&r, &mine);
    if (s)
        return s;
    if (!c->algorithm) {
        c->sent = comm_schedule_sent(mine);
        c->algorithm = pool_text(&p->pool, comm_schedule_algorithm(mine));
        s = compress_plain(&r, c);
    }
    uint64_t scratch = comm_schedule_scratch(mine), kept = comm_schedule_kept(mine);
    c->scratch_bytes = scratch > c->scratch_bytes ? scratch : c->scratch_bytes;
    c->kept_bytes = kept > c->kept_bytes ? kept : c->kept_bytes;
    comm_schedule_free(mine);
    return s;
}

/* Scratch that suits all ranks of the channel. */
static weft_status ask_all(plan *p, collective *c)
{
    const channel *ch = &p->channels.at[c->channel];
    const uint32_t n = plan_channel_size(p, c->channel);
    bool *ask = mem_alloc(n);
    weft_status s = WEFT_OK;
    ranks_to_ask(ch->layout, n, ask);
    for (uint32_t me = 0; !s && me < n; me++)
        if (ask[me] && !(plan_between_two(c) && me == c->root)) /* that has a request of its own */
            s = ask_rank(p, c, me);
    free(ask);
    if (s)
        err_context("channel %s", ch->name);
    return s;
}

weft_status plan_collective(builder *b, const collective *like, uint32_t *out)
{
    plan *p = b->p;
    collective c = *like;
    const spec_link *link = &p->spec->links[p->channels.at[c.channel].link];
    if (where_coll(link)) { /* it has its own algorithms and memory */
        c.algorithm = link->c->name;
        c.sent = c.plain = sent_by_library(&c, plan_channel_size(p, c.channel));
    } else {
        weft_status s = find_made(p, &c) ? WEFT_OK : ask_all(p, &c);
        if (s)
            return s;
        c.scratch = space_take(scratch_space(b, c.channel), c.scratch_bytes);
        compress_keep(b, &c);
    }
    *vec_push(&p->collectives) = c;
    *out = p->collectives.n - 1;
    return WEFT_OK;
}

/* --- which parameters are summed over which axes, and when they are ready --- */

static const char *axis_name(const builder *b, uint32_t axis)
{
    return axis < FIRST_GROUP ? b->g->mesh->name[axis] : b->groups->at[axis - FIRST_GROUP].name;
}

/* What strategies (overrides: 0) or the placement (1) say of a parameter's sums. */
static weft_status read_syncs(const builder *b, const edit_state *e, flat_param *p, sync_state *s,
                              bool overrides)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < e->syncs.n; i++) {
        const sync_edit *x = &e->syncs.at[i];
        uint64_t bit = (uint64_t)1 << x->mesh_axis;
        if (x->overrides != overrides || !glob_match(x->glob, p->name))
            continue;
        if (seen & bit)
            return fail(WEFT_USAGE, "the gradient of %s is summed over %s twice, by %s as well",
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

static weft_status find_axes(const builder *b, const edit_state *e, flat_param *p, sync_state *s)
{
    for (int overrides = 0; overrides < 2; overrides++) {
        weft_status st = read_syncs(b, e, p, s, overrides);
        if (st)
            return st;
    }
    for (uint32_t a = 0; a < b->g->mesh->n; a++)
        if ((p->partial_axes & ~p->sum_axes & ~p->never_axes) >> a & 1)
            return fail(
                WEFT_USAGE,
                "the gradient of %s is a partial sum over the mesh axis %s, and no strategy "
                "says when it is summed",
                p->name, b->g->mesh->name[a]);
    uint64_t groups = p->sum_axes >> FIRST_GROUP << FIRST_GROUP;
    if (groups ? !stage_shared(b, p->block) : stage_shared(b, p->block))
        return fail(WEFT_USAGE,
                    groups ? "the gradient of %s is to be summed over a group, but one stage "
                             "alone uses it"
                           : "%s is used by several stages, and no strategy says when its "
                             "gradients are summed over them",
                    p->name);
    p->sum_axes = (p->sum_axes & p->partial_axes) | groups; /* whole already: nothing to do */
    p->every_axes &= p->sum_axes;
    if (p->sum_axes & p->never_axes)
        return fail(WEFT_USAGE, "the gradient of %s is to be summed over a mesh axis, and never",
                    p->name);
    p->cut_axes |= p->never_axes & p->partial_axes; /* in the norm: coordinates differ */
    return WEFT_OK;
}

weft_status sync_prepare(builder *b, edit_state *e)
{
    sync_state *s = pool_alloc(&b->p->pool, sizeof *s);
    b->sync = s;
    b->groups = &e->groups;
    for (uint32_t i = 0; i < b->f->params.n; i++) {
        weft_status st = find_axes(b, e, &b->f->params.at[i], s);
        if (st)
            return st;
    }
    return apart_check(b, e);
}

/* --- buckets --- */

uint32_t grads_channel(const builder *b, uint32_t axis)
{
    if (axis < FIRST_GROUP)
        return plan_channel(b->p, "grads", axis);
    const group_edit *k = &b->groups->at[axis - FIRST_GROUP];
    return plan_channel_some(b->p, k->name, k->mesh_axis, k->coords, k->n);
}

/* The next axis of a block that is cut: `c` is what the whole group would be. */
static uint32_t next_of_group(const builder *b, const bucket *k, collective *c)
{
    const flat_block *fb = &b->f->blocks.at[b->f->groups.at[k->group - 1].block];
    flat_place_in own = flat_own(b->f, k->group - 1, FLAT_GRADS, b->f->grads, b->f->grad_size);
    bool scatter = k->axes >> fb->axis & 1;
    c->in = c->out = own.at;
    c->shift_axis = fb->axis;
    c->out_shift = own.shift;
    c->in_shift = scatter ? 0 : own.shift;
    c->kind = scatter ? WEFT_REDUCE_SCATTER : WEFT_ALL_REDUCE;
    c->count /= scatter ? 1 : fb->parts;
    return scatter ? fb->axis : (uint32_t)__builtin_ctzll(k->axes);
}

static weft_status next_axis(builder *b, list *l, bucket *k)
{
    plan *p = b->p;
    uint32_t a = (uint32_t)__builtin_ctzll(k->axes);
    collective c = {.kind = WEFT_ALL_REDUCE,
                    .redop = WEFT_SUM,
                    .dtype = b->g->grad_dtype,
                    .count = k->end - k->first};
    c.in = c.out = b->f->grads + flat_index(b->f, k->first, FLAT_GRADS) * b->f->grad_size;
    if (k->group)
        a = next_of_group(b, k, &c);
    k->axes &= ~((uint64_t)1 << a);
    c.channel = grads_channel(b, a);
    c.name = pool_printf(&p->pool, "%s of gradients %llu-%llu",
                         c.kind == WEFT_ALL_REDUCE ? "all-reduce" : "reduce-scatter",
                         (unsigned long long)k->first, (unsigned long long)k->end);
    uint32_t number;
    compress_sum(b, &c, a, false);
    weft_status s = plan_collective(b, &c, &number);
    if (s)
        return s;
    list_add(p, l, ENTRY_START, number, 0, c.name);
    k->pending = number + 1;
    return WEFT_OK;
}

/* Wait for the bucket on its last axis, axis by axis. Its scratch is free from then on. */
weft_status sync_finish(builder *b, list *l, bucket *k)
{
    while (k->pending) {
        collective c = b->p->collectives.at[k->pending - 1];
        list_add(b->p, l, ENTRY_WAIT, k->pending - 1, 0, c.name);
        space_give(scratch_space(b, c.channel), c.scratch, c.scratch_bytes);
        k->pending = 0;
        weft_status s = k->axes ? next_axis(b, l, k) : WEFT_OK;
        if (s)
            return s;
    }
    return WEFT_OK;
}

/* So many buckets are in flight at most: enough that the links never idle, few enough that their
 * scratch stays small. */
#define BUCKETS_IN_FLIGHT 4u

static weft_status start_piece(builder *b, list *l, bucket k)
{
    sync_state *s = b->sync;
    uint32_t oldest = s->buckets.n, flying = 0;
    for (uint32_t i = s->buckets.n; i-- > 0;)
        if (s->buckets.at[i].pending) {
            flying++;
            oldest = i;
        }
    weft_status st = WEFT_OK;
    if (k.axes && flying >= BUCKETS_IN_FLIGHT)
        st = sync_finish(b, l, &s->buckets.at[oldest]);
    if (!st && k.axes)
        st = next_axis(b, l, &k);
    *vec_push(&s->buckets) = k;
    return st;
}

/* Start the open bucket in pieces of the bucket's size, the last block's elements first. */
weft_status sync_flush(builder *b, list *l)
{
    sync_state *s = b->sync;
    bucket k = s->open;
    s->open = (bucket){0};
    uint64_t most = k.axes ? s->bucket_elements : UINT64_MAX;
    while (k.end > k.first) {
        uint64_t n = k.end - k.first;
        uint64_t pieces = n / most + (n % most != 0);
        uint64_t take = (n / pieces + 31) / 32 * 32; /* even pieces, on aligned places */
        uint64_t first = take < n ? k.end - take : k.first;
        bucket part = k;
        part.first = first;
        weft_status st = start_piece(b, l, part);
        if (st)
            return st;
        k.end = first;
    }
    return WEFT_OK;
}

static weft_status grow(builder *b, list *l, const flat_param *p, uint64_t end)
{
    sync_state *s = b->sync;
    bool joins = s->open.end > s->open.first && s->open.first == end &&
                 s->open.axes == p->sum_axes && s->open.guest == p->guest;
    if (!joins) {
        weft_status st = sync_flush(b, l);
        if (st)
            return st;
        s->open = (bucket){.first = end, .end = end, .axes = p->sum_axes, .guest = p->guest};
    }
    s->open.first = p->first;
    if (p->sum_axes && s->open.end - s->open.first >= s->bucket_elements)
        return sync_flush(b, l);
    return WEFT_OK;
}

weft_status sync_group(builder *b, list *l, uint32_t group, uint64_t axes)
{
    const flat_group *x = &b->f->groups.at[group];
    return start_piece(b, l,
                       (bucket){.first = x->at[0],
                                .end = x->at[0] + x->count,
                                .axes = axes,
                                .group = 1 + group,
                                .guest = x->guest});
}

static weft_status block_ready(builder *b, list *l, uint32_t fb)
{
    const flat_block *k = &b->f->blocks.at[fb];
    uint64_t end = k->end;
    weft_status s = WEFT_OK;
    for (uint32_t i = k->level ? k->groups : 0; !s && i-- > 0;)
        s = sync_group(b, l, k->first_group + i, b->f->groups.at[k->first_group + i].sum_axes);
    for (uint32_t i = k->level ? 0 : k->params; !s && i-- > 0;) {
        const flat_param *p = &b->f->params.at[k->first_param + i];
        s = grow(b, l, p, end);
        end = p->first;
    }
    return s;
}

weft_status sync_work_done(walk *w, uint32_t at)
{
    for (uint32_t i = w->b->f->blocks.n; i-- > 0;)
        if (w->grads_done[i] == at + 1 && w->b->f->blocks.at[i].level < FLAT_GRADS) {
            weft_status s = block_ready(w->b, w->l, i);
            if (s)
                return s;
        }
    return WEFT_OK;
}

/* The scalar summed over each mesh axis in `axes`, at once. */
weft_status sync_scalar(builder *b, list *l, const char *scalar, uint64_t axes)
{
    for (; axes; axes &= axes - 1) {
        uint32_t number;
        collective c = {.channel = plan_channel(b->p, "scalars", (uint32_t)__builtin_ctzll(axes)),
                        .kind = WEFT_ALL_REDUCE,
                        .redop = WEFT_SUM,
                        .dtype = WEFT_F32,
                        .count = 1};
        c.name = pool_printf(&b->p->pool, "all-reduce of %s", scalar);
        c.in = c.out = scalar_offset(b, scalar, 0);
        weft_status s = plan_collective(b, &c, &number);
        if (s)
            return s;
        list_add(b->p, l, ENTRY_START, number, 0, c.name);
        list_add(b->p, l, ENTRY_WAIT, number, 0, c.name);
        const collective *made = &b->p->collectives.at[number];
        space_give(scratch_space(b, made->channel), made->scratch, made->scratch_bytes);
    }
    return WEFT_OK;
}
