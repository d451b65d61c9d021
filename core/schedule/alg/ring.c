/* schedule/alg/ring.c: ring reduce-scatter, all-gather, all-reduce and reduce.
 *
 * Idea: the ranks form a ring. In n - 1 rounds each rank sends one part to the next rank, receives
 * another from the previous rank and adds its own contribution, so that after the last round rank r
 * has the complete sum of part r. The all-gather passes the finished parts round once more. A long
 * part is cut into chunks, so that a chunk is forwarded while the next one arrives.
 *
 * Cost for S bytes: each phase sends S (n-1)/n bytes, the minimum, in n - 1 messages (times the
 * chunks of a part), one after the other: n - 1 latencies; each rank communicates with two others
 * only. Summing reads 2 S (n-1)/n bytes. Reduce adds a message of S/n to the root.
 *
 * It loses when messages are short, because 2 (n-1) latencies follow one another, and for sums of
 * 16-bit floats, whose partial sums are rounded n - 1 times on the way. */
#include "schedule/terms.h"

/* Received chunks wait here to be sent: those of a whole part, and a few more so that receives do
 * not wait for sends. */
#define SPARE_SLOTS 3

/* Begins with every rank's in [count], ends with part `me` of the result at `mine`. */
static void reduce_scatter(sched_writer *w, sched_place mine)
{
    uint32_t n = w->r->ranks, me = w->r->me, next = (me + 1) % n, prev = (me + n - 1) % n;
    uint64_t longest = sched_writer_longest_part(w), chunks = sched_writer_chunks(w, longest);
    uint64_t stride = sched_align_line(sched_writer_chunk(w, (sched_span){0, longest}, 0).bytes);
    uint64_t slots = chunks + SPARE_SLOTS;
    sched_place ring = sched_writer_scratch(w, slots * stride);
    for (uint32_t round = 0; round + 1 < n; round++) {
        sched_span give = sched_writer_part(w, (me + n - 1 - round) % n);
        sched_span take = sched_writer_part(w, (me + 2 * n - 2 - round) % n);
        for (uint64_t c = 0; c < chunks; c++) {
            sched_span out = sched_writer_chunk(w, give, c), in = sched_writer_chunk(w, take, c);
            uint64_t now = round * chunks + c;
            sched_place slot = sched_place_plus(ring, now % slots * stride);
            sched_place from = round == 0 ? sched_in_at(out.at)
                                          : sched_place_plus(ring, (now - chunks) % slots * stride);
            sched_writer_send(w, next, from, out.bytes);
            sched_writer_recv(w, prev, slot, in.bytes);
            sched_place to = round + 2 == n ? sched_place_plus(mine, in.at - take.at) : slot;
            sched_writer_reduce2(w, to, slot, sched_in_at(in.at), in.bytes);
        }
    }
}

/* Begins with part `me` in place in out. */
static void all_gather(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me, next = (me + 1) % n, prev = (me + n - 1) % n;
    uint64_t chunks = sched_writer_chunks(w, sched_writer_longest_part(w));
    for (uint32_t round = 0; round + 1 < n; round++) {
        sched_span give = sched_writer_part(w, (me + n - round) % n);
        sched_span take = sched_writer_part(w, (me + 2 * n - 1 - round) % n);
        for (uint64_t c = 0; c < chunks; c++) {
            sched_span out = sched_writer_chunk(w, give, c), in = sched_writer_chunk(w, take, c);
            sched_writer_send(w, next, sched_out_at(out.at), out.bytes);
            sched_writer_recv(w, prev, sched_out_at(in.at), in.bytes);
        }
    }
}

static void emit(sched_writer *w)
{
    uint32_t me = w->r->me;
    sched_span part = sched_writer_part(w, me);
    switch (w->r->kind) {
    case WEFT_ALL_REDUCE:
        reduce_scatter(w, sched_out_at(part.at));
        all_gather(w);
        break;
    case WEFT_REDUCE_SCATTER: reduce_scatter(w, sched_out_at(0)); break;
    case WEFT_ALL_GATHER:
        sched_writer_copy(w, sched_out_at(part.at), sched_in_at(0), part.bytes);
        all_gather(w);
        break;
    default: { /* WEFT_REDUCE */
        sched_place mine =
            me == w->r->root ? sched_out_at(part.at) : sched_writer_scratch(w, part.bytes);
        reduce_scatter(w, mine);
        sched_gather_to_root(w, mine);
    }
    }
}

/* Each rank sends all parts but one to the next; `kept` is the offset of that part from its
 * rank. */
static void pass_round(sched_traffic *t, const sched_writer *w, uint32_t kept)
{
    uint32_t n = w->r->ranks, inter = sched_traffic_crossings(t, 0, n);
    sched_amount all = sched_amount_parts(w);
    for (uint32_t i = 0; i < n; i++)
        sched_traffic_edge(t, i, (i + 1) % n,
                           sched_amount_less(all, sched_amount_part(w, (i + kept) % n)));
    /* n edges, of which a way has n - 1 */
    sched_traffic_way(t, n - 1, inter < n ? inter : n - 1, 0);
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const uint32_t kind = w->r->kind;
    if (kind != WEFT_ALL_GATHER)
        pass_round(t, w, 0);
    if (kind == WEFT_ALL_REDUCE || kind == WEFT_ALL_GATHER)
        pass_round(t, w, 1);
    if (kind == WEFT_REDUCE)
        sched_gather_terms(t, w);
    return kind == WEFT_ALL_GATHER ? 0 : 2 * ((double)w->bytes - sched_shortest_part(w));
}

const sched_algorithm sched_ring = {
    .name = "ring",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_REDUCE_SCATTER) | SCHED_ON(WEFT_ALL_GATHER) |
             SCHED_ON(WEFT_REDUCE),
    .chunk = 256 << 10,
    .emit = emit,
    .terms = terms,
};
