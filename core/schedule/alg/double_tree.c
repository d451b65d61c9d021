/* schedule/alg/double_tree.c: all-reduce, broadcast and reduce over two binary trees at once.
 *
 * Idea (Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, reduction and
 * scan, 2009): in a binary tree half of the ranks are leaves, which send nothing in a broadcast. So
 * there are two trees, and a rank with children in one is a leaf of the other; each tree carries
 * one half of the bytes, chunk after chunk. Reduce walks both trees towards the root; all-reduce
 * does that and then broadcasts each chunk as soon as its sum is complete.
 *
 * The trees: number the other ranks from the root, 1 ... n - 1. In the first tree the children of a
 * number are half its lowest set bit below and above it (or the nearest existing number above), so
 * odd numbers are leaves; the highest power of two is on top, and the root is its parent. The
 * second tree is the same with numbers of the other parity: counted backwards for odd n, shifted by
 * one for even n.
 *
 * Cost for S bytes: a rank sends S/2 to each child: S for a broadcast; S for a reduce, half to each
 * parent; 2 S for an all-reduce; in chunks, and summing reads at most 2 S. ceil(log2 n) latencies
 * each way, and in each level but the first two more chunk times until the pipeline is full.
 *
 * It loses to the ring and pairwise exchange on few ranks, which send S/n less per phase; to the
 * doubling algorithms when messages are too short to pipeline. 16-bit floats are rounded once per
 * level, ceil(log2 n) times. */
#include "schedule/terms.h"

/* Chunks whose contributions may be in flight at once, in each tree. */
#define SLOTS 4

typedef struct forest {
    sched_writer *w;
    uint32_t n, root;
    sched_span half[2];
    int up, down; /* up: sums move to the root; down: results move from it */
} forest;

/* A rank's node in a tree. */
typedef struct node {
    uint32_t parent, child[2], children; /* ranks; the root has no parent */
} node;

static forest forest_of(sched_writer *w)
{
    const sched_request *r = w->r;
    uint64_t first = sched_align_line(w->bytes / 2);
    first = first < w->bytes ? first : w->bytes;
    return (forest){.w = w,
                    .n = r->ranks,
                    .root = r->kind == WEFT_ALL_REDUCE ? 0 : r->root,
                    .half = {{0, first}, {first, w->bytes - first}},
                    .up = r->kind != WEFT_BROADCAST,
                    .down = r->kind != WEFT_REDUCE};
}

/* Label in tree 0 or 1 to rank, and back; the root is 0. */
static uint32_t rank_of(const forest *f, int tree, uint32_t label)
{
    uint32_t v = label;
    if (tree && label)
        v = f->n & 1 ? f->n - label : (label + f->n - 3) % (f->n - 1) + 1;
    return (v + f->root) % f->n;
}

static uint32_t label_of(const forest *f, int tree, uint32_t rank)
{
    uint32_t v = (rank + f->n - f->root) % f->n;
    if (!tree || !v)
        return v;
    return f->n & 1 ? f->n - v : v % (f->n - 1) + 1;
}

static uint32_t above(const forest *f, uint32_t label)
{
    uint32_t bit = label & -label, up = (label ^ bit) | bit << 1;
    return up < f->n ? up : label ^ bit;
}

static node node_of(const forest *f, int tree, uint32_t rank)
{
    uint32_t label = label_of(f, tree, rank), bit = label & -label, high = bit / 2;
    node x = {0};
    if (label == 0) {
        for (high = 1; high * 2 < f->n;)
            high *= 2;
        x.child[x.children++] = rank_of(f, tree, high);
        return x;
    }
    x.parent = rank_of(f, tree, above(f, label));
    if (bit > 1)
        x.child[x.children++] = rank_of(f, tree, label - bit / 2);
    while (high && label + high >= f->n)
        high /= 2;
    if (high)
        x.child[x.children++] = rank_of(f, tree, label + high);
    return x;
}

static uint32_t depth(const forest *f)
{
    uint32_t deep = 0;
    while (1ull << deep < f->n)
        deep++;
    return deep;
}

/* Chunk s of a tree: sends the sum over the subtree to the parent. `capacity`: a chunk for each
 * child. */
static void up_chunk(const forest *f, const node *x, sched_span s, sched_place capacity,
                     uint64_t stride)
{
    sched_writer *w = f->w;
    int top = w->r->me == f->root;
    sched_place sum = sched_in_at(s.at);
    for (uint32_t i = 0; i < x->children; i++)
        sched_writer_recv(w, x->child[i], sched_place_plus(capacity, i * stride), s.bytes);
    if (x->children) {
        sum = top ? sched_out_at(s.at) : capacity;
        sched_writer_open(w, SCHED_REDUCE, 0, s.bytes);
        sched_writer_from(w, capacity);
        sched_writer_from(w, sched_in_at(s.at));
        if (x->children > 1)
            sched_writer_from(w, sched_place_plus(capacity, stride));
        sched_writer_to(w, sum);
    }
    if (!top)
        sched_writer_send(w, x->parent, sum, s.bytes);
}

static void down_chunk(const forest *f, const node *x, sched_span s)
{
    sched_writer *w = f->w;
    int top = w->r->me == f->root;
    sched_place at = top && !f->up ? sched_in_at(s.at) : sched_out_at(s.at);
    if (!top)
        sched_writer_recv(w, x->parent, at, s.bytes);
    for (uint32_t i = 0; i < x->children; i++)
        sched_writer_send(w, x->child[i], at, s.bytes);
}

/* The broadcast lags the reduction by `lag` chunks, so a send that is ready never queues behind one
 * whose data has not arrived. */
static void emit(sched_writer *w)
{
    forest f = forest_of(w);
    node x[2] = {node_of(&f, 0, w->r->me), node_of(&f, 1, w->r->me)};
    uint64_t chunks = sched_writer_chunks(w, f.half[0].bytes), lag = f.up ? 2 * depth(&f) : 0;
    uint64_t stride = sched_align_line(sched_writer_chunk(w, f.half[0], 0).bytes);
    uint64_t slots = chunks < SLOTS ? chunks : SLOTS;
    sched_place capacity[2] = {0};
    for (int t = 0; t < 2 && f.up; t++)
        capacity[t] = sched_writer_scratch(w, slots * x[t].children * stride);
    for (uint64_t c = 0; c < chunks + lag; c++) {
        for (int t = 0; t < 2 && f.up && c < chunks; t++)
            up_chunk(&f, &x[t], sched_writer_chunk(w, f.half[t], c),
                     sched_place_plus(capacity[t], c % slots * x[t].children * stride), stride);
        for (int t = 0; t < 2 && f.down && c >= lag; t++)
            down_chunk(&f, &x[t], sched_writer_chunk(w, f.half[t], c - lag));
    }
    if (!f.up && w->r->me == f.root)
        sched_writer_copy(w, sched_out_at(0), sched_in_at(0), w->bytes);
}

/* Terms of one direction through both trees; `max`: the longest chain between machines. */
static void way_terms(sched_traffic *t, const forest *f, int up)
{
    uint32_t max = 0;
    for (int tree = 0; tree < 2; tree++)
        for (uint32_t label = 1; label < f->n; label++) {
            uint32_t me = rank_of(f, tree, label), parent = rank_of(f, tree, above(f, label));
            uint32_t inter = 0;
            sched_traffic_edge(t, up ? me : parent, up ? parent : me,
                               sched_amount_cut(f->w, f->half[tree].bytes));
            for (uint32_t at = label; at; at = above(f, at))
                inter += (uint32_t)sched_traffic_crosses(t, rank_of(f, tree, at),
                                                         rank_of(f, tree, above(f, at)));
            max = inter > max ? inter : max;
        }
    sched_traffic_way(t, depth(f), max, 2 * (double)sched_writer_chunk(f->w, f->half[0], 0).bytes);
}

static double terms(sched_writer *w, sched_traffic *t)
{
    forest f = forest_of(w);
    double max = 0;
    if (f.up)
        way_terms(t, &f, 1);
    if (f.down)
        way_terms(t, &f, 0);
    for (uint32_t i = 0; i < f.n && f.up; i++) {
        double reduced = 0;
        for (int tree = 0; tree < 2; tree++) {
            uint32_t children = node_of(&f, tree, i).children;
            reduced += children ? (children + 1) * (double)f.half[tree].bytes : 0;
        }
        max = reduced > max ? reduced : max;
    }
    return max;
}

const sched_algorithm sched_double_tree = {
    .name = "double_tree",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_BROADCAST) | SCHED_ON(WEFT_REDUCE),
    .chunk = 64 << 10,
    .emit = emit,
    .terms = terms,
};
