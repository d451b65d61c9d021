/* schedule/alg/hierarchical/hierarchical_tree.c: broadcast and reduce over a binomial tree of
 * machines, with a binomial tree of members inside each machine (see hierarchical.c).
 *
 * Idea: a machine's leader is the root itself or the member nearest to the network. Broadcast: the
 * leader receives from the leader of the parent machine, sends to those of the child machines, then
 * to its own members, chunk after chunk. Reduce is the reverse, adding on the way.
 *
 * Cost for S bytes: M - 1 inter-node messages of S in all, the minimum; ceil(log2 M) inter-node
 * latencies and ceil(log2 l) intra-node.
 *
 * It loses on long messages and many machines, where the root's machine sends S log2 M. */
#include "schedule/alg/hierarchical/hierarchy.h"

/* Chunks whose contributions may be in flight at once. */
#define SLOTS 2

typedef struct tree {
    sched_hierarchy *v;
    uint32_t count, index; /* number of nodes, and this rank's node; 0 is the root */
    int machines;          /* a tree of machines (else of the members of this machine) */
} tree;

uint32_t sched_hierarchy_root_leader(const sched_hierarchy *v, uint32_t machine)
{
    uint32_t root = v->w->r->root;
    return machine == v->at[root] ? root : sched_hierarchy_member(v, machine, 0);
}

uint32_t sched_hierarchy_node(const sched_hierarchy *v, uint32_t machine, uint32_t index)
{
    uint32_t top = 0;
    while (sched_hierarchy_member(v, machine, top) != sched_hierarchy_root_leader(v, machine))
        top++;
    return sched_hierarchy_member(v, machine, (top + index) % v->size[machine]);
}

/* The rank at a node. */
static uint32_t node(const tree *t, uint32_t index)
{
    const sched_hierarchy *v = t->v;
    if (t->machines)
        return sched_hierarchy_root_leader(v, (v->at[v->w->r->root] + index) % v->machines);
    return sched_hierarchy_node(v, v->machine, index);
}

static tree machines(sched_hierarchy *v)
{
    uint32_t top = v->at[v->w->r->root];
    return (tree){v, v->machines, (v->machine + v->machines - top) % v->machines, 1};
}

static tree members(sched_hierarchy *v)
{
    tree t = {v, v->size[v->machine], 0, 0};
    while (node(&t, t.index) != v->me)
        t.index++;
    return t;
}

/* The lowest set bit of this node's index; at the root, the least power of two >= count. */
static uint32_t lowest(const tree *t)
{
    uint32_t bit = 1;
    while (bit < t->count && !(t->index & bit))
        bit *= 2;
    return bit;
}

static void down(const tree *t, sched_place at, uint64_t bytes)
{
    uint32_t bit = lowest(t);
    if (t->index)
        sched_writer_recv(t->v->w, node(t, t->index - bit), at, bytes);
    for (bit /= 2; bit; bit /= 2)
        if (t->index + bit < t->count)
            sched_writer_send(t->v->w, node(t, t->index + bit), at, bytes);
}

void sched_hierarchy_broadcast(sched_hierarchy *v)
{
    sched_writer *w = v->w;
    int root = v->me == w->r->root, speaks = sched_hierarchy_root_leader(v, v->machine) == v->me;
    tree inter = machines(v), intra = members(v);
    for (uint64_t c = 0; c < sched_writer_chunks(w, w->bytes); c++) {
        sched_span s = sched_writer_chunk(w, (sched_span){0, w->bytes}, c);
        sched_place at = root ? sched_in_at(s.at) : sched_out_at(s.at);
        if (speaks)
            down(&inter, at, s.bytes);
        down(&intra, at, s.bytes);
    }
    if (root)
        sched_writer_copy(w, sched_out_at(0), sched_in_at(0), w->bytes);
}

static uint32_t below(const tree *t)
{
    uint32_t n = 0;
    for (uint32_t bit = 1; bit < lowest(t); bit *= 2)
        n += t->index + bit < t->count;
    return n;
}

/* Adds what the children send to `sum`, and sends it to the parent if there is one. Returns where
 * the sum is; `capacity` has one place of `stride` bytes per child. */
static sched_place up(const tree *t, sched_place sum, sched_place capacity, uint64_t stride,
                      uint64_t bytes)
{
    sched_writer *w = t->v->w;
    uint32_t seen = 0, mine = lowest(t);
    for (uint32_t bit = 1; bit < mine; bit *= 2) {
        if (t->index + bit >= t->count)
            continue;
        sched_place got = sched_place_plus(capacity, seen++ * stride);
        sched_writer_recv(w, node(t, t->index + bit), got, bytes);
        sched_writer_reduce2(w, got, sum, got, bytes);
        sum = got;
    }
    if (t->index)
        sched_writer_send(w, node(t, t->index - mine), sum, bytes);
    return sum;
}

void sched_hierarchy_reduce(sched_hierarchy *v)
{
    sched_writer *w = v->w;
    int root = v->me == w->r->root, speaks = sched_hierarchy_root_leader(v, v->machine) == v->me;
    tree inter = machines(v), intra = members(v);
    uint64_t first = sched_writer_chunk(w, (sched_span){0, w->bytes}, 0).bytes,
             stride = sched_align_line(first);
    uint64_t half = below(&intra) * stride, both = half + (speaks ? below(&inter) * stride : 0);
    sched_place capacity = sched_writer_scratch(w, SLOTS * both);
    for (uint64_t c = 0; c < sched_writer_chunks(w, w->bytes); c++) {
        sched_span s = sched_writer_chunk(w, (sched_span){0, w->bytes}, c);
        sched_place at = sched_place_plus(capacity, c % SLOTS * both);
        sched_place sum = up(&intra, sched_in_at(s.at), at, stride, s.bytes);
        if (speaks)
            sum = up(&inter, sum, sched_place_plus(at, half), stride, s.bytes);
        if (root)
            sched_writer_copy(w, sched_out_at(s.at), sum, s.bytes);
    }
}
