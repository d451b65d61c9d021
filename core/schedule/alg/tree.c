/* schedule/alg/tree.c: broadcast, reduce, all-reduce, gather and scatter over a binomial tree.
 *
 * Idea: ranks are numbered from the root. Rank v receives from the rank that differs from it in its
 * lowest set bit, and then sends to those that differ from it in one lower bit, the farthest first.
 * Reduce walks the same tree towards the root, each rank adding what its children send to its own;
 * all-reduce is a reduce to rank 0 and a broadcast. The subtree of a rank has consecutive numbers,
 * so a gather sends all its parts as one message, and a scatter receives them so.
 *
 * Cost for S bytes: the root sends (broadcast) or receives and adds (reduce) ceil(log2 n) messages
 * of S bytes one after the other, other ranks fewer; floor(log2 n) latencies follow one another,
 * twice in an all-reduce, whose way back begins when the sum is complete. The root of a scatter or
 * gather has as many messages, S (n-1)/n bytes in all; every inner rank copies what it forwards.
 *
 * It loses when S is long: the root handles S log2 n bytes where a chain handles S, and scattered
 * parts travel up to log2 n times. 16-bit partial sums are rounded at each of the up to ceil(log2
 * n) additions. */
#include "schedule/terms.h"

/* Ranks numbered from the root. */
typedef struct rooted {
    sched_writer *w;
    uint32_t n, root, me; /* me: in this numbering */
} rooted;

static rooted rooted_at(sched_writer *w)
{
    const sched_request *r = w->r;
    uint32_t root = r->kind == WEFT_ALL_REDUCE ? 0 : r->root;
    return (rooted){w, r->ranks, root, (r->me + r->ranks - root) % r->ranks};
}

static uint32_t rank_of(const rooted *t, uint32_t v)
{
    return (v + t->root) % t->n;
}

/* The lowest set bit of a rank's number; for the root, the least power of two >= n. */
static uint32_t own_bit(const rooted *t, uint32_t v)
{
    uint32_t bit = 1;
    while (bit < t->n && !(v & bit))
        bit *= 2;
    return bit;
}

/* Size of the subtree of v: ranks v ... v + below - 1. */
static uint32_t below(const rooted *t, uint32_t v)
{
    uint32_t bit = own_bit(t, v);
    return v + bit < t->n ? bit : t->n - v;
}

/* `from`: where the root has the data. */
static void broadcast(const rooted *t, sched_place from)
{
    sched_writer *w = t->w;
    uint32_t v = t->me, bit = own_bit(t, v);
    if (v) {
        from = sched_out_at(0);
        sched_writer_recv(w, rank_of(t, v - bit), from, w->bytes);
    }
    for (bit /= 2; bit; bit /= 2)
        if (v + bit < t->n)
            sched_writer_send(w, rank_of(t, v + bit), from, w->bytes);
    if (!v)
        sched_writer_copy(w, sched_out_at(0), from, w->bytes);
}

static void reduce(const rooted *t)
{
    sched_writer *w = t->w;
    uint32_t v = t->me;
    sched_place sum = sched_in_at(0);
    for (uint32_t bit = 1; bit < t->n; bit *= 2) {
        if (v & bit) {
            sched_writer_send(w, rank_of(t, v - bit), sum, w->bytes);
            return;
        }
        if (v + bit >= t->n)
            continue;
        sched_place got = sched_writer_scratch(w, w->bytes);
        sched_writer_recv(w, rank_of(t, v + bit), got, w->bytes);
        sched_place to = v == 0 ? sched_out_at(0) : got;
        sched_writer_reduce2(w, to, sum, got, w->bytes);
        sum = to;
    }
}

/* At the root, the parts of child v are contiguous in `whole`, unless they include both the last
 * rank and the first: then they are packed in scratch. */
static sched_place at_root(const rooted *t, uint32_t v, sched_place whole, int *wraps)
{
    uint64_t part = t->w->bytes / t->n, many = below(t, v), first = rank_of(t, v);
    *wraps = first + many > t->n;
    return *wraps ? sched_writer_scratch(t->w, many * part) : sched_place_plus(whole, first * part);
}

static void gather(const rooted *t)
{
    sched_writer *w = t->w;
    uint32_t v = t->me, bit = own_bit(t, v), many = below(t, v);
    uint64_t part = w->bytes / t->n;
    sched_place have = v == 0     ? sched_out_at(t->root * part)
                       : many > 1 ? sched_writer_scratch(w, many * part)
                                  : sched_in_at(0);
    sched_writer_copy(w, have, sched_in_at(0), part);
    for (uint32_t up = 1; up < bit && v + up < t->n; up *= 2) {
        uint32_t child = v + up, first = rank_of(t, child);
        int wraps = 0;
        sched_place to =
            v ? sched_place_plus(have, up * part) : at_root(t, child, sched_out_at(0), &wraps);
        sched_writer_recv(w, first, to, below(t, child) * part);
        if (wraps) {
            uint64_t before = (t->n - first) * part;
            sched_writer_copy(w, sched_out_at(first * part), to, before);
            sched_writer_copy(w, sched_out_at(0), sched_place_plus(to, before),
                              below(t, child) * part - before);
        }
    }
    if (v)
        sched_writer_send(w, rank_of(t, v - bit), have, many * part);
}

static void scatter(const rooted *t)
{
    sched_writer *w = t->w;
    uint32_t v = t->me, bit = own_bit(t, v), many = below(t, v);
    uint64_t part = w->bytes / t->n;
    sched_place have = v && many > 1 ? sched_writer_scratch(w, many * part) : sched_out_at(0);
    if (v)
        sched_writer_recv(w, rank_of(t, v - bit), have, many * part);
    for (bit /= 2; bit; bit /= 2) {
        uint32_t child = v + bit, first = rank_of(t, child);
        int wraps = 0;
        if (child >= t->n)
            continue;
        sched_place from =
            v ? sched_place_plus(have, bit * part) : at_root(t, child, sched_in_at(0), &wraps);
        if (wraps) {
            uint64_t before = (t->n - first) * part;
            sched_writer_copy(w, from, sched_in_at(first * part), before);
            sched_writer_copy(w, sched_place_plus(from, before), sched_in_at(0),
                              below(t, child) * part - before);
        }
        sched_writer_send(w, first, from, below(t, child) * part);
    }
    sched_writer_copy(w, sched_out_at(0), v ? have : sched_in_at(t->root * part), part);
}

static void emit(sched_writer *w)
{
    rooted t = rooted_at(w);
    switch (w->r->kind) {
    case WEFT_BROADCAST: broadcast(&t, sched_in_at(0)); break;
    case WEFT_REDUCE: reduce(&t); break;
    case WEFT_GATHER: gather(&t); break;
    case WEFT_SCATTER: scatter(&t); break;
    default: reduce(&t); broadcast(&t, sched_out_at(0));
    }
}

/* All edges of the tree, towards the root or away from it. Returns the number of the root's
 * children. */
static uint32_t edges(sched_traffic *s, const rooted *t, int up)
{
    uint32_t deepest = 0, farthest = 0, children = 0, parts = t->w->r->kind;
    for (uint32_t v = 1; v < t->n; v++) {
        uint32_t me = rank_of(t, v), parent = rank_of(t, v & (v - 1)), deep = 0, inter = 0;
        uint64_t bytes = t->w->bytes;
        if (parts == WEFT_GATHER || parts == WEFT_SCATTER)
            bytes = bytes / t->n * below(t, v);
        sched_traffic_edge(s, up ? me : parent, up ? parent : me, sched_amount_whole(bytes));
        for (uint32_t at = v; at; at &= at - 1, deep++)
            inter += (uint32_t)sched_traffic_crosses(s, rank_of(t, at), rank_of(t, at & (at - 1)));
        deepest = deep > deepest ? deep : deepest;
        farthest = inter > farthest ? inter : farthest;
        children += (v & (v - 1)) == 0;
    }
    sched_traffic_way(s, deepest, farthest, 0);
    return children;
}

static double terms(sched_writer *w, sched_traffic *s)
{
    const sched_request *r = w->r;
    rooted t = rooted_at(w);
    int sums = r->kind == WEFT_REDUCE || r->kind == WEFT_ALL_REDUCE;
    uint32_t children = 0;
    if (sums || r->kind == WEFT_GATHER)
        children = edges(s, &t, 1);
    if (r->kind == WEFT_ALL_REDUCE || r->kind == WEFT_BROADCAST || r->kind == WEFT_SCATTER)
        children = edges(s, &t, 0);
    if (r->kind == WEFT_ALL_REDUCE)
        sched_traffic_back(s);
    return sums ? 2.0 * children * (double)w->bytes : 0;
}

const sched_algorithm sched_tree = {
    .name = "tree",
    .kinds = SCHED_ON(WEFT_BROADCAST) | SCHED_ON(WEFT_REDUCE) | SCHED_ON(WEFT_ALL_REDUCE) |
             SCHED_ON(WEFT_GATHER) | SCHED_ON(WEFT_SCATTER),
    .emit = emit,
    .terms = terms,
};
