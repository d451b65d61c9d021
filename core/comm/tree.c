/* comm/tree.c: broadcast and reduce over a binomial tree.
 *
 * Idea: count ranks from the root. Rank v is told by the rank that differs from it in its lowest
 * set bit, and then tells those that differ from it in one lower bit, the farthest first. Reduce
 * walks the same tree towards the root, each rank adding what its children send to its own.
 *
 * Cost for S bytes: the root sends (broadcast) or receives and adds (reduce) ceil(log2 n) messages
 * of S bytes one after the other, other ranks fewer; floor(log2 n) latencies follow one another.
 *
 * It loses when S is long: the root handles S log2 n bytes where a chain handles S, and reduce
 * rounds 16-bit partial sums at each level. */
#include "comm/terms.h"

static void broadcast(builder *b)
{
    uint32_t n = b->r->ranks, root = b->r->root, v = (b->r->me + n - root) % n, bit = 1;
    while (bit < n && !(v & bit))
        bit *= 2;
    comm_place from = v ? out_at(0) : in_at(0);
    if (v)
        build_recv(b, (v - bit + root) % n, out_at(0), b->bytes);
    for (bit /= 2; bit; bit /= 2)
        if (v + bit < n)
            build_send(b, (v + bit + root) % n, from, b->bytes);
    if (!v)
        build_copy(b, out_at(0), in_at(0), b->bytes);
}

static void reduce(builder *b)
{
    uint32_t n = b->r->ranks, root = b->r->root, v = (b->r->me + n - root) % n;
    comm_place sum = in_at(0);
    for (uint32_t bit = 1; bit < n; bit *= 2) {
        if (v & bit) {
            build_send(b, (v - bit + root) % n, sum, b->bytes);
            return;
        }
        if (v + bit >= n)
            continue;
        comm_place got = build_scratch(b, b->bytes);
        build_recv(b, (v + bit + root) % n, got, b->bytes);
        comm_place to = v == 0 ? out_at(0) : got;
        build_reduce2(b, to, sum, got, b->bytes);
        sum = to;
    }
}

static void emit(builder *b)
{
    if (b->r->kind == WEFT_BROADCAST)
        broadcast(b);
    else
        reduce(b);
}

static void terms(const comm_request *r, comm_terms *out)
{
    builder b = build_for(r, &comm_tree);
    traffic *t = traffic_begin(r);
    uint32_t n = r->ranks, deepest = 0, farthest = 0, children = 0;
    int sums = r->kind == WEFT_REDUCE;
    for (uint32_t v = 1; v < n; v++) {
        uint32_t me = (v + r->root) % n, parent = ((v & (v - 1)) + r->root) % n, deep = 0, far = 0;
        traffic_edge(t, sums ? me : parent, sums ? parent : me, amount_whole(b.bytes));
        for (uint32_t at = v; at; at &= at - 1, deep++)
            far +=
                (uint32_t)traffic_crosses(t, (at + r->root) % n, ((at & (at - 1)) + r->root) % n);
        deepest = deep > deepest ? deep : deepest;
        farthest = far > farthest ? far : farthest;
        children += (v & (v - 1)) == 0; /* of the root */
    }
    traffic_way(t, deepest, farthest, 0);
    traffic_end(t, out);
    out->reduced = sums ? 2.0 * children * (double)b.bytes : 0;
}

const comm_algorithm comm_tree = {
    .name = "tree",
    .kinds = COMM_ON(WEFT_BROADCAST) | COMM_ON(WEFT_REDUCE),
    .emit = emit,
    .terms = terms,
};
