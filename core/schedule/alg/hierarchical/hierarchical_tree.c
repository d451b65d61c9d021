/* schedule/alg/hierarchical/hierarchical_tree.c: broadcast and reduce over a binomial tree of
 * machines, whose nodes are binomial trees of members (see hierarchical.c).
 *
 * Idea: a machine's speaker is the root itself or its member nearest to the network. Broadcast: the
 * speaker hears from that of the machine above, tells those below, then its own members, chunk
 * after chunk. Reduce is the same backwards, adding on the way.
 *
 * Cost for S bytes: M - 1 messages of S between machines in all, the least that there can be;
 * ceil(log2 M) latencies there and ceil(log2 l) inside.
 *
 * It loses on long messages and many machines, where the root's machine sends S log2 M. */
#include "schedule/alg/hierarchical/hierarchy.h"

/* Chunks whose contributions may be under way at once. */
#define SLOTS 2

typedef struct tree {
    sched_hierarchy *v;
    uint32_t count, index; /* nodes, and which of them I am: 0 is the top */
    int machines;          /* of machines (else of the members of mine) */
} tree;

uint32_t levels_speaker(const sched_hierarchy *v, uint32_t machine)
{
    uint32_t root = v->b->r->root;
    return machine == v->at[root] ? root : sched_hierarchy_member(v, machine, 0);
}

uint32_t levels_node(const sched_hierarchy *v, uint32_t machine, uint32_t index)
{
    uint32_t top = 0;
    while (sched_hierarchy_member(v, machine, top) != levels_speaker(v, machine))
        top++;
    return sched_hierarchy_member(v, machine, (top + index) % v->size[machine]);
}

/* The rank at a node. */
static uint32_t node(const tree *t, uint32_t index)
{
    const sched_hierarchy *v = t->v;
    if (t->machines)
        return levels_speaker(v, (v->at[v->b->r->root] + index) % v->machines);
    return levels_node(v, v->machine, index);
}

static tree machines(sched_hierarchy *v)
{
    uint32_t top = v->at[v->b->r->root];
    return (tree){v, v->machines, (v->machine + v->machines - top) % v->machines, 1};
}

static tree members(sched_hierarchy *v)
{
    tree t = {v, v->size[v->machine], 0, 0};
    while (node(&t, t.index) != v->me)
        t.index++;
    return t;
}

/* The lowest set bit of my index; at the top the first power of two that is not below the count. */
static uint32_t lowest(const tree *t)
{
    uint32_t bit = 1;
    while (bit < t->count && !(t->index & bit))
        bit *= 2;
    return bit;
}

static void down(const tree *t, comm_place at, uint64_t bytes)
{
    uint32_t bit = lowest(t);
    if (t->index)
        build_recv(t->v->b, node(t, t->index - bit), at, bytes);
    for (bit /= 2; bit; bit /= 2)
        if (t->index + bit < t->count)
            build_send(t->v->b, node(t, t->index + bit), at, bytes);
}

void levels_broadcast(sched_hierarchy *v)
{
    sched_writer *b = v->b;
    int root = v->me == b->r->root, speaks = levels_speaker(v, v->machine) == v->me;
    tree far = machines(v), near = members(v);
    for (uint64_t c = 0; c < build_chunks(b, b->bytes); c++) {
        sched_span s = build_chunk(b, (sched_span){0, b->bytes}, c);
        comm_place at = root ? in_at(s.at) : out_at(s.at);
        if (speaks)
            down(&far, at, s.bytes);
        down(&near, at, s.bytes);
    }
    if (root)
        build_copy(b, out_at(0), in_at(0), b->bytes);
}

static uint32_t below(const tree *t)
{
    uint32_t n = 0;
    for (uint32_t bit = 1; bit < lowest(t); bit *= 2)
        n += t->index + bit < t->count;
    return n;
}

/* Adds what arrives from below to `sum`, and sends it up if there is one above. Returns where the
 * sum is; `room` has as many places of `stride` bytes as there are nodes below. */
static comm_place up(const tree *t, comm_place sum, comm_place room, uint64_t stride,
                     uint64_t bytes)
{
    sched_writer *b = t->v->b;
    uint32_t seen = 0, mine = lowest(t);
    for (uint32_t bit = 1; bit < mine; bit *= 2) {
        if (t->index + bit >= t->count)
            continue;
        comm_place got = place_plus(room, seen++ * stride);
        build_recv(b, node(t, t->index + bit), got, bytes);
        build_reduce2(b, got, sum, got, bytes);
        sum = got;
    }
    if (t->index)
        build_send(b, node(t, t->index - mine), sum, bytes);
    return sum;
}

void levels_reduce(sched_hierarchy *v)
{
    sched_writer *b = v->b;
    int root = v->me == b->r->root, speaks = levels_speaker(v, v->machine) == v->me;
    tree far = machines(v), near = members(v);
    uint64_t first = build_chunk(b, (sched_span){0, b->bytes}, 0).bytes,
             stride = sched_align_line(first);
    uint64_t half = below(&near) * stride, both = half + (speaks ? below(&far) * stride : 0);
    comm_place room = build_scratch(b, SLOTS * both);
    for (uint64_t c = 0; c < build_chunks(b, b->bytes); c++) {
        sched_span s = build_chunk(b, (sched_span){0, b->bytes}, c);
        comm_place at = place_plus(room, c % SLOTS * both);
        comm_place sum = up(&near, in_at(s.at), at, stride, s.bytes);
        if (speaks)
            sum = up(&far, sum, place_plus(at, half), stride, s.bytes);
        if (root)
            build_copy(b, out_at(s.at), sum, s.bytes);
    }
}
