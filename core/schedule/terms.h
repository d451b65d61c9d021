/* schedule/terms.h: adds up what a request takes by an algorithm.
 *
 * The algorithm says who sends how much to whom, by its formulas and without walking its steps;
 * here that is added up for each member and machine, and the most of each becomes comm_terms.
 * Takes time in proportion to the ranks, so that plans of thousands of them may ask. */
#ifndef SCHEDULE_TERMS_H
#define SCHEDULE_TERMS_H

#include "schedule/algorithm.h"

typedef struct amount {
    double messages, bytes;
} amount;

static inline amount amount_less(amount a, amount b)
{
    return (amount){a.messages - b.messages, a.bytes - b.bytes};
}

amount amount_whole(uint64_t bytes);                 /* as one message; none when empty */
amount amount_cut(const builder *b, uint64_t bytes); /* in chunks */
amount amount_part(const builder *b, uint32_t i);    /* part i, in chunks */
amount amount_parts(const builder *b);               /* all of them */
double least_part(const builder *b);                 /* bytes */
static inline double longest_part(const builder *b)
{
    return (double)build_longest(b);
}

typedef struct traffic traffic;

traffic *traffic_begin(const comm_request *r);
void traffic_edge(traffic *t, uint32_t from, uint32_t to, amount a);
void traffic_to_all(traffic *t, uint32_t from, amount a); /* to each other rank */
void traffic_from_all(traffic *t, uint32_t to, amount a); /* from each other rank */

/* What was added since the last call takes `rounds` latencies, between machines if any of it goes
 * there; none if there is nothing. `fill`: see comm_way. */
void traffic_rounds(traffic *t, double rounds, double fill);

/* Instead: it takes a way of `hops` latencies, `far` of them between machines, and each but the
 * first begins when `chunk` bytes have passed the one before. */
void traffic_way(traffic *t, double hops, double far, double chunk);

/* How many of the `hops` from rank to next rank, from `first` on, lead to another machine. */
uint32_t traffic_crossings(const traffic *t, uint32_t first, uint32_t hops);

/* Does the way between these two? */
int traffic_crosses(const traffic *t, uint32_t a, uint32_t b);

/* Everything but `reduced` (which becomes 0). Frees `t`. */
void traffic_end(traffic *t, comm_terms *out);

/* Phases that several algorithms share. */
void gather_terms(traffic *t, const builder *b); /* gather_to_root() */

#endif
