/* schedule/alg/dissemination.c: the dissemination barrier.
 *
 * Idea: in round k each rank signals the rank 2^k after it and waits for the rank 2^k before it.
 * After ceil(log2 n) rounds every rank has heard, directly or indirectly, from all.
 *
 * Cost: ceil(log2 n) empty messages per rank, one after the other. Among algorithms that use
 * messages only, it never loses. */
#include "schedule/terms.h"

static void emit(sched_writer *w)
{
    uint32_t n = w->r->ranks, me = w->r->me, heard[32], rounds = 0;
    for (uint64_t distance = 1; distance < n; distance *= 2) {
        uint32_t told = sched_writer_signal(w, (uint32_t)((me + distance) % n));
        for (uint32_t i = 0; i < rounds; i++)
            sched_writer_after(w, told, heard[i]);
        heard[rounds++] = sched_writer_wait(w, (uint32_t)((me + n - distance) % n));
    }
}

static double terms(sched_writer *w, sched_traffic *t)
{
    const uint32_t n = w->r->ranks;
    for (uint64_t distance = 1; distance < n; distance *= 2) {
        for (uint32_t i = 0; i < n; i++)
            sched_traffic_edge(t, i, (uint32_t)((i + distance) % n), (sched_amount){1, 0});
        sched_traffic_rounds(t, 1, 0);
    }
    return 0;
}

const sched_algorithm sched_dissemination = {
    .name = "dissemination",
    .kinds = SCHED_ON(WEFT_BARRIER),
    .emit = emit,
    .terms = terms,
};
