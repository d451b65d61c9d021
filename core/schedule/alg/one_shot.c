/* schedule/alg/one_shot.c: all-reduce and reduce in one round (algorithm = one_shot).
 *
 * Idea: every rank sends its whole input to every other and reduces all inputs itself, in rank
 * order. (Reduce: all send to the root.) 16-bit floats are rounded once, and every rank does the
 * same arithmetic on the same numbers, so all have the same bits.
 *
 * Cost for S bytes: S (n-1) bytes in n - 1 messages (times their chunks), all at once: one latency.
 * Summing reads S n bytes. (Reduce: each rank sends S to the root, which alone sums.)
 *
 * It loses when bandwidth matters: on 2 ranks it sends the same bytes as other algorithms but adds
 * twice as much, on more ranks it sends n / 2 times as much. */
#include "schedule/terms.h"

/* Chunks in flight, each with room for n - 1 contributions. */
#define SLOTS 3

static void receive_and_combine(sched_writer *b, sched_span s, sched_place room, uint64_t stride)
{
    uint32_t n = b->r->ranks, me = b->r->me;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t peer = (me + n - k) % n;
        sched_writer_recv(b, peer, sched_place_plus(room, (peer < me ? peer : peer - 1) * stride),
                          s.bytes);
    }
    sched_writer_reduce(b, s.bytes);
    for (uint32_t i = 0; i < n; i++)
        sched_writer_from(b, i == me ? sched_in_at(s.at)
                                     : sched_place_plus(room, (i < me ? i : i - 1) * stride));
    sched_writer_to(b, sched_out_at(s.at));
}

static void emit(sched_writer *b)
{
    uint32_t n = b->r->ranks, me = b->r->me, root = b->r->root;
    int to_all = b->r->kind == WEFT_ALL_REDUCE, receives = to_all || me == root;
    sched_span all = {0, b->bytes};
    uint64_t chunks = sched_writer_chunks(b, b->bytes), slots = chunks < SLOTS ? chunks : SLOTS;
    uint64_t stride = sched_align_line(sched_writer_chunk(b, all, 0).bytes);
    sched_place room = {0};
    if (receives)
        room = sched_writer_scratch(b, slots * (n - 1) * stride);
    for (uint64_t c = 0; c < chunks; c++) {
        sched_span s = sched_writer_chunk(b, all, c);
        for (uint32_t k = 1; k < n; k++)
            if (to_all || (me + k) % n == root)
                sched_writer_send(b, (me + k) % n, sched_in_at(s.at), s.bytes);
        if (receives)
            receive_and_combine(b, s, sched_place_plus(room, c % slots * (n - 1) * stride), stride);
    }
}

static void terms(const sched_request *r, sched_terms *out)
{
    sched_writer b = sched_writer_begin(r, &sched_one_shot);
    sched_traffic *t = sched_traffic_begin(r);
    sched_amount all = sched_amount_cut(&b, b.bytes);
    for (uint32_t i = 0; i < r->ranks; i++)
        if (r->kind == WEFT_ALL_REDUCE)
            sched_traffic_to_all(t, i, all);
        else if (i != r->root)
            sched_traffic_edge(t, i, r->root, all);
    sched_traffic_rounds(t, 1, 0);
    sched_traffic_end(t, out);
    out->reduced = r->ranks * (double)b.bytes;
}

const sched_algorithm sched_one_shot = {
    .name = "one_shot",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_REDUCE),
    .chunk = 128 << 10,
    .once = 1,
    .emit = emit,
    .terms = terms,
};
