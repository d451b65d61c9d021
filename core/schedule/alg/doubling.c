/* schedule/alg/doubling.c: all-reduce by recursive doubling.
 *
 * Idea: in round k each rank exchanges its partial sum with the rank 2^k away and adds what it
 * receives, so that after log2 n rounds every rank has the full sum. Both partners add the same two
 * numbers in the same order, so all ranks have the same bits. If the number of ranks is not a power
 * of two, the first ranks form pairs, see fold.h.
 *
 * Cost for S bytes on 2^k ranks: k messages of S bytes in k latencies, 2 S k bytes read. Pairs add
 * two latencies; their odd rank reads 2 S more and sends S more.
 *
 * It loses to one-shot on few ranks, where latencies matter more than messages; and when bandwidth
 * matters, because it sends S k where halving sends 2 S. 16-bit floats are rounded k times, k + 1
 * with pairs. */
#include "schedule/alg/fold.h"

static void emit(sched_writer *w)
{
    sched_folded f = sched_fold_ranks(w);
    sched_place now = sched_fold_in(&f), got[2] = {0};
    for (uint32_t i = 0; i < 2 && !f.idle; i++)
        got[i] = sched_writer_scratch(w, w->bytes);
    for (uint32_t have = 1, turn = 0; have < f.groups && !f.idle; have *= 2, turn = !turn) {
        uint32_t other = f.group ^ have, partner = sched_fold_actor(&f, other);
        sched_place theirs = got[turn], to = 2 * have == f.groups ? sched_out_at(0) : theirs;
        sched_writer_send(w, partner, now, w->bytes);
        sched_writer_recv(w, partner, theirs, w->bytes);
        int first = other < f.group;
        sched_writer_reduce2(w, to, first ? theirs : now, first ? now : theirs, w->bytes);
        now = to;
    }
    sched_fold_out(&f);
}

static double terms(sched_writer *w, sched_traffic *t)
{
    sched_folded f = sched_fold_ranks(w);
    sched_amount all = sched_amount_whole(w->bytes);
    uint32_t rounds = 0;
    sched_fold_terms(t, &f, 0, sched_amount_cut(w, w->bytes), 1, all.bytes);
    for (uint32_t have = 1; have < f.groups; have *= 2, rounds++) {
        for (uint32_t g = 0; g < f.groups; g++)
            sched_traffic_edge(t, sched_fold_actor(&f, g), sched_fold_actor(&f, g ^ have), all);
        sched_traffic_rounds(t, 1, 0);
    }
    sched_fold_terms(t, &f, 1, all, sched_fold_back(&f), 0);
    return 2 * all.bytes * (rounds + (f.pairs ? 1 : 0));
}

const sched_algorithm sched_doubling = {
    .name = "doubling",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE),
    .emit = emit,
    .terms = terms,
};
