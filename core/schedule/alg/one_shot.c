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

static void receive_and_combine(sched_writer *w, sched_span s, const sched_landing *l, uint64_t c)
{
    uint32_t n = w->r->ranks, me = w->r->me;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t peer = (me + n - k) % n;
        sched_writer_recv(w, peer, sched_landed(l, c, sched_writer_place(w, peer)), s.bytes);
    }
    sched_writer_open(w, SCHED_REDUCE, 0, s.bytes);
    for (uint32_t i = 0; i < n; i++)
        sched_writer_from(w, i == me ? sched_in_at(s.at)
                                     : sched_landed(l, c, sched_writer_place(w, i)));
    sched_writer_to(w, sched_out_at(s.at));
}

static void emit(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me, root = w->r->root;
    int to_all = w->r->kind == WEFT_ALL_REDUCE, receives = to_all || me == root;
    sched_landing landing = {0};
    if (receives)
        landing = sched_writer_landing(w, w->bytes, n - 1);
    for (uint64_t c = 0; c < sched_writer_chunks(w, w->bytes); c++) {
        sched_span s = sched_writer_chunk(w, (sched_span){0, w->bytes}, c);
        for (uint32_t k = 1; k < n; k++)
            if (to_all || (me + k) % n == root)
                sched_writer_send(w, (me + k) % n, sched_in_at(s.at), s.bytes);
        if (receives)
            receive_and_combine(w, s, &landing, c);
    }
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const sched_request *r = w->r;
    sched_amount all = sched_amount_cut(w, w->bytes);
    for (uint32_t i = 0; i < r->ranks; i++)
        if (r->kind == WEFT_ALL_REDUCE)
            sched_traffic_to_all(t, i, all);
        else if (i != r->root)
            sched_traffic_edge(t, i, r->root, all);
    sched_traffic_rounds(t, 1, 0);
    return r->ranks * (double)w->bytes;
}

const sched_algorithm sched_one_shot = {
    .name = "one_shot",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_REDUCE),
    .chunk = 128 << 10,
    .once = 1,
    .emit = emit,
    .terms = terms,
};
