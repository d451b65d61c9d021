/* sim/net.c: the time of an operation among ranks, over the links that it crosses.
 *
 * A group of ranks crosses a level where its members are in several groups of the level below.
 * There its traffic shares the ports of such a group with that of the other groups of ranks along
 * the same mesh axis, which do the same at the same time: as many as there are ranks below the
 * boundary with the same coordinate. One member alone has no more than its share of the ports, or
 * one port if that is more.
 *
 * Libraries of collectives do not say what they do. They are taken to run rings that enter and
 * leave each group once, as NCCL does: all-reduce moves 2 (n - 1) / n of the bytes through each
 * boundary in 2 (n - 1) steps, reduce-scatter, all-gather and the like half of that. The slowest
 * boundary gives the time of the bytes, the steps over each level theirs. A library has one
 * protocol for long messages and one with a lower latency for short ones, and all-reduces can go by
 * trees, with a logarithm of steps; the least of the times counts. */
#include "sim/sim.h"

#include "schedule/algorithm.h"

#include <math.h>
#include <string.h>

static uint64_t below_of(const sim_cluster *c, uint32_t level)
{
    return level ? c->links[level - 1].devices : 1;
}

/* Ranks of the job in the group of `span` devices that `rank` is in, and how many of these have
 * its coordinate on the axis: as many groups of ranks begin or pass there. */
static uint64_t count_alike(const graph_mesh *m, uint32_t axis, uint32_t rank, uint64_t span)
{
    uint64_t all = graph_mesh_ranks(m), first = rank - rank % span, end = first + span, alike = 0;
    uint32_t mine = graph_mesh_coord(m, rank, axis);
    end = end > all || end < first ? all : end;
    for (uint64_t r = first; r < end; r++)
        alike += graph_mesh_coord(m, (uint32_t)r, axis) == mine;
    return alike ? alike : 1;
}

static double rate_at(const sim_cluster *c, uint32_t level, uint64_t members, uint64_t groups)
{
    const sim_link *l = &c->links[level];
    uint64_t below = below_of(c, level);
    double one = l->bandwidth * l->reach, all = one * l->ports;
    double share = all / l->oversubscription / (double)groups;
    double own = all * (double)members / (double)below; /* of the ports, by their number */
    own = own < one ? one : own;
    return share < own ? share : own;
}

void sim_route_make(const sim_cluster *c, const graph_mesh *m, uint32_t mesh_axis,
                    const uint32_t *ranks, uint32_t n, sim_route *out)
{
    *out = (sim_route){.ranks = n, .cluster = c};
    double least = 0;
    for (uint32_t level = 0; level < c->nlinks; level++) {
        uint64_t below = below_of(c, level), span = c->links[level].devices, members = 0, apart = 0;
        for (uint32_t i = 0; i < n; i++) {
            bool same = ranks[i] / span == ranks[0] / span;
            members += ranks[i] / below == ranks[0] / below;
            apart += same && ranks[i] / below != ranks[0] / below;
        }
        if (!apart)
            continue;
        uint64_t groups = count_alike(m, mesh_axis, ranks[0], below);
        out->rate[level] = rate_at(c, level, members, groups);
        out->level = level;
        if (below >= c->per_machine && out->machine_rate <= 0)
            out->machine_rate = out->rate[level];
        if (least <= 0 || out->rate[level] < least) {
            least = out->rate[level];
            out->slowest = level;
        }
    }
}

/* Steps of a ring over each level: one a boundary that it crosses, and the slowest sets the pace
 * while all move; so a step takes the latency of the outermost level. */
static double ring(const sim_route *r, double steps, double share, double bytes, bool brief)
{
    const sim_link *outer = &r->cluster->links[r->level];
    double seconds = steps * (brief ? outer->short_latency : outer->latency), slowest = 0;
    for (uint32_t i = 0; i < r->cluster->nlinks; i++) {
        const sim_link *l = &r->cluster->links[i];
        double rate = r->rate[i] * (brief ? l->short_reach / l->reach : 1);
        if (rate > 0)
            slowest = fmax(slowest, share * bytes / rate);
    }
    return seconds + slowest;
}

double sim_library_seconds(const sim_route *r, uint32_t kind, double bytes)
{
    double n = r->ranks, share = (n - 1) / n, steps = n - 1;
    if (r->ranks < 2)
        return 0;
    if (kind == WEFT_ALL_REDUCE) {
        double hops = 2 * ceil(log2(n));
        double best = fmin(ring(r, 2 * steps, 2 * share, bytes, false),
                           ring(r, 2 * steps, 2 * share, bytes, true));
        return fmin(best, fmin(ring(r, hops, 2, bytes, false), ring(r, hops, 2, bytes, true)));
    }
    if (kind == WEFT_SEND || kind == WEFT_RECV || kind == WEFT_SHIFT)
        return fmin(ring(r, 1, 1, bytes, false), ring(r, 1, 1, bytes, true));
    if (kind == WEFT_BROADCAST || kind == WEFT_REDUCE || kind == WEFT_BARRIER) {
        double hops = ceil(log2(n));
        return fmin(ring(r, hops, 1, bytes, false), ring(r, hops, 1, bytes, true));
    }
    return fmin(ring(r, steps, share, bytes, false), ring(r, steps, share, bytes, true));
}

static const sched_algorithm *named(const char *name)
{
    for (uint32_t i = 0; name && sched_algorithms[i]; i++)
        if (!strcmp(sched_algorithms[i]->name, name))
            return sched_algorithms[i];
    return NULL;
}

/* What the formulas of an algorithm mean over these links: members of one machine talk over the
 * slowest level within it, machines over the slowest beyond. */
static sched_cost cost_of(const sim_route *r)
{
    const sim_cluster *c = r->cluster;
    sched_cost out = {.reduce = 3 / (c->device.bandwidth * c->device.stream)};
    for (uint32_t i = 0; i < c->nlinks; i++) {
        const sim_link *l = &c->links[i];
        bool within = l->devices <= c->per_machine;
        sched_speed *s = within ? &out.intra : &out.inter;
        if (r->rate[i] <= 0)
            continue;
        s->latency = fmax(s->latency, l->short_latency);
        s->message = s->latency;
        s->per_byte = fmax(s->per_byte, 1 / r->rate[i]);
    }
    if (out.intra.per_byte <= 0) /* no machine has two members, or the plan knows no machines */
        out.intra = out.inter;
    if (out.inter.per_byte <= 0)
        out.inter = out.intra;
    out.mapped = out.intra.per_byte;
    return out;
}

double sim_collective_seconds(const plan *p, const plan_collective *c, uint32_t me,
                              const sim_route *r)
{
    const sched_algorithm *a = named(c->algorithm);
    uint64_t in = 0, out = 0;
    sched_request q = {.kind = c->kind, .dtype = c->dtype, .count = c->count, .ranks = r->ranks};
    sched_sides(&q, &in, &out);
    double bytes = (double)(in > out ? in : out), staged = 0;
    if (c->compress && c->plain)
        bytes *= (double)c->sent / (double)c->plain;
    if (a && r->ranks > 1)
        plan_request(p, c, me, &q);
    if (q.staged) /* to the host's memory and back */
        staged = (double)(in + out) / r->cluster->device.copy;
    if (!a || !a->terms || r->ranks < 2 || plan_between_two(c) || c->compress)
        return staged + sim_library_seconds(r, c->kind, bytes);
    sched_terms t = {0};
    sched_cost cost = cost_of(r);
    q.me = 0;
    sched_terms_of(a, &q, &t);
    return staged + sched_seconds(&t, &cost);
}
