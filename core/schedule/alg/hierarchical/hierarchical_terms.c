/* schedule/alg/hierarchical/hierarchical_terms.c: the cost terms of hierarchical.c and
 * hierarchical_tree.c. */
#include "schedule/alg/hierarchical/hierarchy.h"
#include "schedule/terms.h"

static double larger(double a, double w)
{
    return a > w ? a : w;
}

/* All members of a machine send to one of them, or one of them to all others. */
static void star(const sched_hierarchy *v, sched_traffic *t, uint32_t machine, uint32_t one,
                 int inward, sched_amount a)
{
    for (uint32_t i = 0; i < v->size[machine]; i++) {
        uint32_t other = sched_hierarchy_member(v, machine, i);
        if (other != one)
            sched_traffic_edge(t, inward ? other : one, inward ? one : other, a);
    }
}

/* --- all-reduce --- */

/* Machine m's share of all chunks of a part. */
static sched_amount share_of(const sched_hierarchy *v, uint64_t part, uint32_t m)
{
    const sched_writer *w = v->w;
    uint64_t chunks = sched_writer_chunks(w, part);
    sched_span first = sched_writer_chunk(w, (sched_span){0, part}, 0), last = {0, part};
    if (chunks > 1)
        last = sched_writer_chunk(w, (sched_span){0, part}, chunks - 1);
    uint64_t full = sched_hierarchy_share(w, first, m, v->machines).bytes;
    uint64_t rest = sched_hierarchy_share(w, last, m, v->machines).bytes;
    sched_amount a = sched_amount_whole(rest);
    a.messages += full && chunks > 1 ? (double)(chunks - 1) : 0;
    a.bytes += chunks > 1 ? (double)full * (double)(chunks - 1) : 0;
    return a;
}

/* Traffic between the leaders of one part; returns what the busiest of them reads to reduce. */
static double between(const sched_hierarchy *v, sched_traffic *t, uint64_t part, uint32_t leader,
                      int gather)
{
    double reads = 0;
    for (uint32_t m = 0; m < v->machines; m++) {
        sched_amount mine = share_of(v, part, m);
        for (uint32_t k = 0; k < v->machines; k++) {
            uint32_t a = sched_hierarchy_member(v, m, leader),
                     c = sched_hierarchy_member(v, k, leader);
            if (k != m && v->machines == 2 && !gather)
                sched_traffic_edge(t, a, c, sched_amount_cut(v->w, part));
            else if (k != m && v->machines > 2)
                sched_traffic_edge(t, gather ? a : c, gather ? c : a, mine);
        }
        reads = larger(reads, mine.bytes * v->machines);
    }
    return v->machines == 2 ? 2 * (double)part : v->machines == 1 ? 0 : reads;
}

static double all_reduce(const sched_hierarchy *v, sched_traffic *t)
{
    uint32_t leaders = sched_hierarchy_leaders(v);
    uint64_t bytes = v->w->bytes;
    double reduced = 0;
    for (int phase = 0; phase < 4; phase++) {
        for (uint32_t j = 0; j < leaders; j++) {
            uint64_t part = sched_hierarchy_share(v->w, (sched_span){0, bytes}, j, leaders).bytes;
            for (uint32_t m = 0; m < v->machines && phase % 3 == 0; m++)
                star(v, t, m, sched_hierarchy_member(v, m, j), phase == 0,
                     sched_amount_cut(v->w, part));
            double here = v->max > 1 ? (double)part * v->max : 0;
            if (phase == 1)
                reduced = larger(reduced, here + between(v, t, part, j, 0));
            if (phase == 2)
                (void)between(v, t, part, j, 1);
        }
        int alone = v->machines == 2 && v->least == 1; /* the other has its own sum last */
        sched_traffic_rounds(t, phase == 3 && alone ? 0 : 1, 0);
    }
    return reduced;
}

/* --- reduce-scatter and all-gather --- */

static double scatter_or_gather(const sched_hierarchy *v, sched_traffic *t, int gather)
{
    uint64_t part = v->w->bytes / v->ranks;
    sched_amount a = sched_amount_cut(v->w, part);
    double reduced = 0;
    for (int inter = gather; inter == 0 || inter == 1; inter += gather ? -1 : 1) {
        for (uint32_t q = 0; q < v->ranks; q++)
            for (uint32_t m = 0; m < v->machines; m++) {
                uint32_t by = sched_hierarchy_leads_for(v, m, q);
                if (!inter)
                    star(v, t, m, by, !gather, a);
                else if (by != q)
                    sched_traffic_edge(t, gather ? q : by, gather ? by : q, a);
            }
        sched_traffic_rounds(t, 1, 0);
    }
    for (uint32_t i = 0; i < v->ranks && !gather; i++) {
        double charges = 0, size = v->size[v->at[i]];
        for (uint32_t q = 0; q < v->ranks; q++)
            charges += sched_hierarchy_leads_for(v, v->at[i], q) == i;
        double reads = (size > 1 ? size * charges : 0) + v->machines;
        reduced = larger(reduced, reads * (double)part);
    }
    return reduced;
}

/* --- trees --- */

static uint32_t parent(uint32_t index)
{
    return index & (index - 1);
}

/* Depth of a tree with `count` nodes. */
static uint32_t depth(uint32_t count)
{
    uint32_t max = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t ones = (uint32_t)__builtin_popcount(i);
        max = ones > max ? ones : max;
    }
    return max;
}

/* Number of children of a node. */
static uint32_t below(uint32_t index, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t bit = 1; bit < count && !(index & bit); bit *= 2)
        n += index + bit < count;
    return n;
}

static double trees(const sched_hierarchy *v, sched_traffic *t, int up)
{
    sched_amount a = sched_amount_cut(v->w, v->w->bytes);
    uint32_t hops = 0, inter = 0, top = v->at[v->w->r->root], max = 0;
    for (uint32_t k = 0; k < v->machines; k++) {
        uint32_t m = (top + k) % v->machines, size = v->size[m];
        uint32_t high = (uint32_t)__builtin_popcount(k), deep = high + depth(size);
        uint32_t me = sched_hierarchy_root_leader(v, m);
        uint32_t above = sched_hierarchy_root_leader(v, (top + parent(k)) % v->machines);
        if (k)
            sched_traffic_edge(t, up ? me : above, up ? above : me, a);
        for (uint32_t i = 1; i < size; i++) {
            uint32_t one = sched_hierarchy_node(v, m, i),
                     on = sched_hierarchy_node(v, m, parent(i));
            sched_traffic_edge(t, up ? one : on, up ? on : one, a);
        }
        uint32_t sums = below(0, size) + below(k, v->machines), inner = 0;
        for (uint32_t i = 1; i < size; i++)
            inner = below(i, size) > inner ? below(i, size) : inner;
        max = sums > max ? sums : max;
        max = inner > max ? inner : max;
        inter = deep > hops ? high : inter;
        hops = deep > hops ? deep : hops;
    }
    uint64_t chunk = sched_writer_chunk(v->w, (sched_span){0, v->w->bytes}, 0).bytes;
    sched_traffic_way(t, hops, inter, (double)chunk);
    return up ? 2.0 * max * (double)v->w->bytes : 0;
}

double sched_hierarchy_terms(sched_writer *w, sched_traffic *t)
{
    sched_hierarchy v;
    double reduced;
    sched_hierarchy_begin(w, &v);
    switch (w->r->kind) {
    case WEFT_ALL_REDUCE: reduced = all_reduce(&v, t); break;
    case WEFT_REDUCE_SCATTER: reduced = scatter_or_gather(&v, t, 0); break;
    case WEFT_ALL_GATHER: reduced = scatter_or_gather(&v, t, 1); break;
    default: reduced = trees(&v, t, w->r->kind == WEFT_REDUCE); break;
    }
    sched_hierarchy_end(&v);
    return reduced;
}
