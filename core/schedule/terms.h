/* schedule/terms.h: adds up the cost terms of an algorithm for a request.
 *
 * The algorithm reports who sends how much to whom, by its formulas and without generating steps;
 * here that is added up per member and machine, and the maximum of each becomes sched_terms. Takes
 * time linear in the ranks, so that plans of thousands of ranks may use it.
 * tests/schedule/terms_test.c requires them to be exact; latencies where count >= ranks. */
#ifndef SCHEDULE_TERMS_H
#define SCHEDULE_TERMS_H

#include "schedule/algorithm.h"

typedef struct sched_amount {
    double messages, bytes;
} sched_amount;

static inline sched_amount sched_amount_less(sched_amount a, sched_amount w)
{
    return (sched_amount){a.messages - w.messages, a.bytes - w.bytes};
}

sched_amount sched_amount_whole(uint64_t bytes); /* as one message; none when empty */
sched_amount sched_amount_cut(const sched_writer *w, uint64_t bytes); /* in chunks */
sched_amount sched_amount_part(const sched_writer *w, uint32_t i);    /* part i, in chunks */
sched_amount sched_amount_parts(const sched_writer *w);               /* all of them */
double sched_shortest_part(const sched_writer *w);                    /* bytes */
static inline double sched_longest_part(const sched_writer *w)
{
    return (double)sched_writer_longest_part(w);
}

void sched_traffic_edge(sched_traffic *t, uint32_t from, uint32_t to, sched_amount a);
void sched_traffic_to_all(sched_traffic *t, uint32_t from, sched_amount a); /* to each other rank */
void sched_traffic_from_all(sched_traffic *t, uint32_t to,
                            sched_amount a); /* from each other rank */

/* All that was added since the last call, in whatever directions, takes `rounds` latencies,
 * inter-node if any of it is; none if nothing was added. `fill`: see sched_way. */
void sched_traffic_rounds(sched_traffic *t, double rounds, double fill);

/* Alternative: it takes a path of `hops` latencies, `inter` of them inter-node, and each hop but
 * the first begins when `chunk` bytes have passed the previous one. */
void sched_traffic_way(sched_traffic *t, double hops, double inter, double chunk);

/* How many of the `hops` from rank to next rank, starting at `first`, are inter-node. */
uint32_t sched_traffic_crossings(const sched_traffic *t, uint32_t first, uint32_t hops);

/* Whether these two ranks are on different machines. */
int sched_traffic_crosses(const sched_traffic *t, uint32_t a, uint32_t w);

/* What is sent on the way back has arrived before: its bytes pass one after the other. */
void sched_traffic_back(sched_traffic *t);

/* Phases that several algorithms share. */
void sched_gather_terms(sched_traffic *t, const sched_writer *w); /* sched_gather_to_root() */

#endif
