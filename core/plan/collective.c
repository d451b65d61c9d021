/* plan/collective.c: adds channels and collectives and queries their schedules' requirements. */
#include "plan/collective.h"

#include "base/err.h"
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
    const uint32_t *copy = n ? pool_copy(&p->pool, coords, n * sizeof *copy) : NULL;
    plan_channel c = {.name = pool_text(&p->pool, name),
                      .mesh_axis = mesh_axis,
                      .ncoords = n,
                      .coords = copy,
                      .algorithm = s->axis_algorithm[mesh_axis],
                      .link = s->axis_link[mesh_axis]};
    c.layout = resolve_group_layout(s, &p->pool, &(resolve_rank_group){mesh_axis, n, copy});
    *vec_push(&p->channels) = c;
    return p->channels.n - 1;
}

uint32_t plan_channel_number(plan *p, const char *what, uint32_t mesh_axis)
{
    char *name = pool_printf(&p->pool, "%s.%s", p->spec->mesh.name[mesh_axis], what);
    return plan_channel_some(p, name, mesh_axis, NULL, 0);
}

/* Ranks of each group of a channel. */
static uint32_t channel_size(const plan *p, uint32_t number)
{
    const plan_channel *c = &p->channels.at[number];
    return c->coords ? c->ncoords : p->spec->mesh.size[c->mesh_axis];
}

/* Is it in place as weft/coll.h defines it: the smaller side is the own part of the larger? */
static bool in_place(const plan *p, const plan_collective *c)
{
    uint64_t part = c->count / channel_size(p, c->channel) * weft_dtype_size(c->dtype);
    bool own = c->shift_axis == p->channels.at[c->channel].mesh_axis;
    if (c->kind == WEFT_REDUCE_SCATTER)
        return c->in == c->out && own && !c->in_shift && c->out_shift == part;
    if (c->kind == WEFT_ALL_GATHER)
        return c->in == c->out && own && !c->out_shift && c->in_shift == part;
    return c->in == c->out && c->in_shift == c->out_shift;
}

void plan_request(const plan *p, const plan_collective *c, uint32_t me, sched_request *out)
{
    const plan_channel *ch = &p->channels.at[c->channel];
    const spec *s = p->spec;
    *out = (sched_request){.kind = c->kind, .redop = c->redop, .dtype = c->dtype, .me = me};
    out->count = c->count;
    out->ranks = channel_size(p, c->channel);
    out->root = c->root;
    out->in_place = in_place(p, c);
    out->link_caps = resolve_link_caps(s, &s->links[ch->link]);
    out->staged = resolve_is_staged(s, &s->links[ch->link]);
    out->layout = ch->layout;
    const char *wanted = sched_rule(ch->algorithm, out);
    if (s->peer_imported >> ch->mesh_axis & 1 && sched_may_map(wanted))
        out->link_caps |= WEFT_LINK_MAP;
    out->algorithm = plan_between_two(c) ? "auto" : wanted;
    out->cost = s->axis_cost[ch->mesh_axis];
    out->compress = c->compress;
    out->feedback = c->compress && s->feedback;
}

/* The plan has chosen the algorithm for the whole group, because scratch and digests depend on it:
 * `auto` and rules are not evaluated again. */
weft_status plan_schedule(const plan *p, const plan_collective *c, uint32_t me,
                          sched_schedule **out)
{
    sched_request r;
    plan_request(p, c, me, &r);
    if (!plan_between_two(c))
        r.algorithm = c->algorithm;
    return sched_make(&r, out);
}

bool plan_channel_in_host(const plan *p, uint32_t number)
{
    return resolve_is_staged(p->spec, &p->spec->links[p->channels.at[number].link]);
}

static plan_space *scratch_space(plan_builder *b, uint32_t number)
{
    return plan_channel_in_host(b->p, number) ? &b->zones.host : &b->zones.comm;
}

void plan_collective_give(plan_builder *b, uint32_t number)
{
    const plan_collective *c = &b->p->collectives.at[number];
    plan_space_give(scratch_space(b, c->channel), c->scratch, c->scratch_bytes);
}

/* Reuse the requirements of an equal one of the last few collectives; lists are repetitive. */
static bool find_made(const plan *p, plan_collective *c)
{
    uint32_t back = p->collectives.n < 64 ? p->collectives.n : 64;
    for (uint32_t i = 1; i <= back; i++) {
        const plan_collective *o = &p->collectives.at[p->collectives.n - i];
        if (o->channel != c->channel || o->kind != c->kind || o->redop != c->redop ||
            o->dtype != c->dtype || o->root != c->root || o->count != c->count ||
            o->compress != c->compress || in_place(p, o) != in_place(p, c))
            continue;
        c->scratch_bytes = o->scratch_bytes;
        c->sent = o->sent;
        c->plain = o->plain;
        c->residual_bytes = o->residual_bytes;
        c->algorithm = o->algorithm;
        return true;
    }
    return false;
}

/* Bytes that a rank sends by the ring algorithm, the reference for collective libraries. */
static uint64_t sent_by_library(const plan_collective *c, uint32_t n)
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

/* Select the ranks to query. In a large group ranks have the requirements of their neighbours,
 * except the first few and the last; on several machines, except all ranks of the first machine of
 * each size. ask: [n] */
static void ranks_to_ask(const sched_layout *l, uint32_t n, bool *ask)
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

/* Bytes that it would send without compression. */
static weft_status ask_plain(const sched_request *r, plan_collective *c)
{
    sched_request plain = *r;
    sched_schedule *s;
    c->plain = c->sent;
    plain.compress = SCHED_PLAIN;
    weft_status st = r->compress ? sched_make(&plain, &s) : WEFT_OK;
    if (st != WEFT_OK || !r->compress)
        return st;
    c->plain = s->sent;
    sched_free(s);
    return WEFT_OK;
}

/* Query the requirements of rank `me`; the first query selects the algorithm. */
static weft_status ask_rank(plan *p, plan_collective *c, uint32_t me)
{
    sched_schedule *mine;
    sched_request r;
    plan_request(p, c, me, &r);
    r.algorithm = c->algorithm ? c->algorithm : r.algorithm; /* the same on all ranks */
    weft_status st = sched_make(&r, &mine);
    if (st != WEFT_OK)
        return st;
    if (!c->algorithm) {
        c->sent = mine->sent;
        c->algorithm = pool_text(&p->pool, mine->r.algorithm);
        st = ask_plain(&r, c);
    }
    uint64_t scratch = mine->scratch, kept = mine->residual;
    c->scratch_bytes = scratch > c->scratch_bytes ? scratch : c->scratch_bytes;
    c->residual_bytes = kept > c->residual_bytes ? kept : c->residual_bytes;
    sched_free(mine);
    return st;
}

/* Find the scratch size that suffices for all ranks of the channel. */
static weft_status ask_all(plan *p, plan_collective *c)
{
    const plan_channel *ch = &p->channels.at[c->channel];
    const uint32_t n = channel_size(p, c->channel);
    bool *ask = mem_alloc(n);
    weft_status st = WEFT_OK;
    ranks_to_ask(ch->layout, n, ask);
    for (uint32_t me = 0; st == WEFT_OK && me < n; me++)
        if (ask[me] &&
            !(plan_between_two(c) && me == c->root)) /* the root has a request of its own */
            st = ask_rank(p, c, me);
    free(ask);
    if (st != WEFT_OK)
        err_context("%s, channel %s", p->spec->algorithm_place[ch->mesh_axis], ch->name);
    return st;
}

/* Allocate its error-feedback residual. */
static void take_residual(plan_builder *b, plan_collective *c)
{
    uint64_t *used = &b->zones.residual[plan_channel_in_host(b->p, c->channel)];
    if (!c->residual_bytes || c->residual)
        return;
    c->residual = 1 + *used;
    *used += (c->residual_bytes + 63) & ~(uint64_t)63;
}

weft_status plan_collective_add(plan_builder *b, const plan_collective *like, uint32_t *out)
{
    plan *p = b->p;
    plan_collective c = *like;
    const spec_link *link = &p->spec->links[p->channels.at[c.channel].link];
    if (resolve_collective_library(link)) { /* it has its own algorithms and memory */
        c.algorithm = link->c->name;
        c.sent = c.plain = sent_by_library(&c, channel_size(p, c.channel));
    } else {
        weft_status st = find_made(p, &c) ? WEFT_OK : ask_all(p, &c);
        if (st != WEFT_OK)
            return st;
        c.scratch = plan_space_take(scratch_space(b, c.channel), c.scratch_bytes);
        take_residual(b, &c);
    }
    *vec_push(&p->collectives) = c;
    *out = p->collectives.n - 1;
    return WEFT_OK;
}
