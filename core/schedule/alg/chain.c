/* schedule/alg/chain.c: pipelined broadcast along a chain of ranks.
 *
 * Idea: the root sends chunk after chunk to the next rank, which forwards each one on arrival; all
 * links of the chain work at once.
 *
 * Cost for S bytes in c chunks: every rank but the last sends S once, in c messages; the last byte
 * arrives after n - 1 latencies and c + n - 2 chunk times.
 *
 * It loses when S is short or n is large: n - 1 latencies one after the other, where the tree has
 * log2 n. */
#include "schedule/terms.h"

static void emit(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me, v = (me + n - w->r->root) % n;
    sched_span all = {0, w->bytes};
    for (uint64_t c = 0; c < sched_writer_chunks(w, w->bytes); c++) {
        sched_span s = sched_writer_chunk(w, all, c);
        if (v > 0)
            sched_writer_recv(w, (me + n - 1) % n, sched_out_at(s.at), s.bytes);
        if (v + 1 < n)
            sched_writer_send(w, (me + 1) % n, v > 0 ? sched_out_at(s.at) : sched_in_at(s.at),
                              s.bytes);
    }
    if (v == 0)
        sched_writer_copy(w, sched_out_at(0), sched_in_at(0), w->bytes);
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const sched_request *r = w->r;
    uint32_t n = r->ranks;
    for (uint32_t v = 0; v + 1 < n; v++)
        sched_traffic_edge(t, (v + r->root) % n, (v + 1 + r->root) % n,
                           sched_amount_cut(w, w->bytes));
    double first = (double)sched_writer_chunk(w, (sched_span){0, w->bytes}, 0).bytes;
    sched_traffic_way(t, n - 1, sched_traffic_crossings(t, r->root, n - 1), first);
    return 0;
}

const sched_algorithm sched_chain = {
    .name = "chain",
    .kinds = SCHED_ON(WEFT_BROADCAST),
    .chunk = 128 << 10,
    .emit = emit,
    .terms = terms,
};
