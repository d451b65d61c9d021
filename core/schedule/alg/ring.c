/* schedule/alg/ring.c: ring reduce-scatter, all-gather, all-reduce and reduce.
 *
 * Idea: the ranks stand in a ring. In n - 1 rounds each rank sends one part to the next rank while
 * it receives another from the one before and adds its own contribution, so that after the last
 * round the complete sum of part r is at rank r. The all-gather passes the finished parts round
 * once more. A long part is cut into chunks, so that a chunk goes on while the next one arrives.
 *
 * Cost for S bytes: each phase sends S (n-1)/n bytes in n - 1 messages (times the chunks of a
 * part), which is the least possible, one after the other: n - 1 latencies; each rank talks to two
 * others only. Summing reads 2 S (n-1)/n bytes. Reduce adds a message of S/n to the root.
 *
 * It loses when messages are short, for 2 (n-1) latencies come one after the other, and for sums of
 * 16-bit floats, whose partial sums are rounded n - 1 times on the way. */
#include "schedule/terms.h"

/* Received chunks wait here for their turn to be sent: those of a whole part, and a few more so
 * that receiving does not wait for sending. */
#define SPARE_SLOTS 3

void ring_reduce_scatter(sched_writer *b, comm_place mine)
{
    uint32_t n = b->r->ranks, me = b->r->me, next = (me + 1) % n, prev = (me + n - 1) % n;
    uint64_t longest = build_longest(b), chunks = build_chunks(b, longest);
    uint64_t stride = sched_align_line(build_chunk(b, (sched_span){0, longest}, 0).bytes);
    uint64_t slots = chunks + SPARE_SLOTS;
    comm_place ring = build_scratch(b, slots * stride);
    for (uint32_t round = 0; round + 1 < n; round++) {
        sched_span give = sched_writer_part(b, (me + n - 1 - round) % n);
        sched_span take = sched_writer_part(b, (me + 2 * n - 2 - round) % n);
        for (uint64_t c = 0; c < chunks; c++) {
            sched_span out = build_chunk(b, give, c), in = build_chunk(b, take, c);
            uint64_t now = round * chunks + c;
            comm_place slot = place_plus(ring, now % slots * stride);
            comm_place from =
                round == 0 ? in_at(out.at) : place_plus(ring, (now - chunks) % slots * stride);
            build_send(b, next, from, out.bytes);
            build_recv(b, prev, slot, in.bytes);
            comm_place to = round + 2 == n ? place_plus(mine, in.at - take.at) : slot;
            build_reduce2(b, to, slot, in_at(in.at), in.bytes);
        }
    }
}

void ring_all_gather(sched_writer *b)
{
    uint32_t n = b->r->ranks, me = b->r->me, next = (me + 1) % n, prev = (me + n - 1) % n;
    uint64_t chunks = build_chunks(b, build_longest(b));
    for (uint32_t round = 0; round + 1 < n; round++) {
        sched_span give = sched_writer_part(b, (me + n - round) % n);
        sched_span take = sched_writer_part(b, (me + 2 * n - 1 - round) % n);
        for (uint64_t c = 0; c < chunks; c++) {
            sched_span out = build_chunk(b, give, c), in = build_chunk(b, take, c);
            build_send(b, next, out_at(out.at), out.bytes);
            build_recv(b, prev, out_at(in.at), in.bytes);
        }
    }
}

static void emit(sched_writer *b)
{
    uint32_t me = b->r->me;
    sched_span part = sched_writer_part(b, me);
    switch (b->r->kind) {
    case WEFT_ALL_REDUCE:
        ring_reduce_scatter(b, out_at(part.at));
        ring_all_gather(b);
        break;
    case WEFT_REDUCE_SCATTER: ring_reduce_scatter(b, out_at(0)); break;
    case WEFT_ALL_GATHER:
        build_copy(b, out_at(part.at), in_at(0), part.bytes);
        ring_all_gather(b);
        break;
    default: { /* WEFT_REDUCE */
        comm_place mine = me == b->r->root ? out_at(part.at) : build_scratch(b, part.bytes);
        ring_reduce_scatter(b, mine);
        gather_to_root(b, mine);
    }
    }
}

/* From each rank to the next go all parts but one: `kept` ranks further than its own. */
static void pass_round(sched_traffic *t, const sched_writer *b, uint32_t kept)
{
    uint32_t n = b->r->ranks, far = traffic_crossings(t, 0, n);
    sched_amount all = amount_parts(b);
    for (uint32_t i = 0; i < n; i++)
        traffic_edge(t, i, (i + 1) % n, amount_less(all, amount_part(b, (i + kept) % n)));
    traffic_way(t, n - 1, far < n ? far : n - 1, 0);
}

static void terms(const comm_request *r, comm_terms *out)
{
    sched_writer b = build_for(r, &comm_ring);
    sched_traffic *t = traffic_begin(r);
    if (r->kind != WEFT_ALL_GATHER)
        pass_round(t, &b, 0);
    if (r->kind == WEFT_ALL_REDUCE || r->kind == WEFT_ALL_GATHER)
        pass_round(t, &b, 1);
    if (r->kind == WEFT_REDUCE)
        gather_terms(t, &b);
    traffic_end(t, out);
    out->reduced = r->kind == WEFT_ALL_GATHER ? 0 : 2 * ((double)b.bytes - least_part(&b));
}

const comm_algorithm comm_ring = {
    .name = "ring",
    .kinds = COMM_ON(WEFT_ALL_REDUCE) | COMM_ON(WEFT_REDUCE_SCATTER) | COMM_ON(WEFT_ALL_GATHER) |
             COMM_ON(WEFT_REDUCE),
    .chunk = 256 << 10,
    .emit = emit,
    .terms = terms,
};
