/* schedule/terms.h: adds up what a request takes by an algorithm.
 *
 * The algorithm says who sends how much to whom, by its formulas and without walking its steps;
 * here that is added up for each member and machine, and the most of each becomes comm_terms.
 * Takes time in proportion to the ranks, so that plans of thousands of them may ask. */
#ifndef SCHEDULE_TERMS_H
#define SCHEDULE_TERMS_H

#include "schedule/algorithm.h"

typedef struct sched_amount {
    double messages, bytes;
} sched_amount;

static inline sched_amount amount_less(sched_amount a, sched_amount b)
{
    return (sched_amount){a.messages - b.messages, a.bytes - b.bytes};
}

sched_amount amount_whole(uint64_t bytes); /* as one message; none when empty */
sched_amount amount_cut(const sched_writer *b, uint64_t bytes); /* in chunks */
sched_amount amount_part(const sched_writer *b, uint32_t i);    /* part i, in chunks */
sched_amount amount_parts(const sched_writer *b);               /* all of them */
double least_part(const sched_writer *b);                       /* bytes */
static inline double longest_part(const sched_writer *b)
{
    return (double)build_longest(b);
}

typedef struct sched_traffic sched_traffic;

sched_traffic *traffic_begin(const comm_request *r);
void traffic_edge(sched_traffic *t, uint32_t from, uint32_t to, sched_amount a);
void traffic_to_all(sched_traffic *t, uint32_t from, sched_amount a); /* to each other rank */
void traffic_from_all(sched_traffic *t, uint32_t to, sched_amount a); /* from each other rank */

/* What was added since the last call takes `rounds` latencies, between machines if any of it goes
 * there; none if there is nothing. `fill`: see comm_way. */
void traffic_rounds(sched_traffic *t, double rounds, double fill);

/* Instead: it takes a way of `hops` latencies, `far` of them between machines, and each but the
 * first begins when `chunk` bytes have passed the one before. */
void traffic_way(sched_traffic *t, double hops, double far, double chunk);

/* How many of the `hops` from rank to next rank, from `first` on, lead to another machine. */
uint32_t traffic_crossings(const sched_traffic *t, uint32_t first, uint32_t hops);

/* Does the way between these two? */
int traffic_crosses(const sched_traffic *t, uint32_t a, uint32_t b);

/* Everything but `reduced` (which becomes 0). Frees `t`. */
void traffic_end(sched_traffic *t, comm_terms *out);

/* Phases that several algorithms share. */
void gather_terms(sched_traffic *t, const sched_writer *b); /* gather_to_root() */

#endif
