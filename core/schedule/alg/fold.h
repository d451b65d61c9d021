/* schedule/alg/fold.h: maps any number of ranks to a power of two, for algorithms whose partners
 * are 2^k apart.
 *
 * Where the number of ranks is not a power of two, the first ranks form pairs: the even rank of a
 * pair sends all its data to the odd one, which acts for both, and receives its result at the end.
 * A pair, or a single rank, is a group. */
#ifndef SCHEDULE_ALG_FOLD_H
#define SCHEDULE_ALG_FOLD_H

#include "schedule/terms.h"

typedef struct sched_folded {
    sched_writer *w;
    uint32_t groups, pairs; /* groups: a power of two; the first `pairs` have two ranks */
    uint32_t group;         /* this rank's */
    int idle;               /* an even rank of a pair, after sending its data */
} sched_folded;

sched_folded sched_fold_ranks(sched_writer *w);

static inline uint32_t sched_fold_first(const sched_folded *f, uint32_t group)
{
    return group < f->pairs ? 2 * group : group + f->pairs;
}

/* The rank that acts for a group. */
static inline uint32_t sched_fold_actor(const sched_folded *f, uint32_t group)
{
    return group < f->pairs ? 2 * group + 1 : group + f->pairs;
}

/* The odd rank of a pair adds the even rank's input to its own. Returns where the group's input now
 * begins. Costs S bytes in one latency; 2 S bytes are read. */
sched_place sched_fold_in(const sched_folded *f);

/* The even rank receives all of out from the odd one. */
void sched_fold_out(const sched_folded *f);

/* Each pair's even rank sends `a` to the odd one, or the odd one to the even one. */
void sched_fold_terms(sched_traffic *t, const sched_folded *f, int back, sched_amount a,
                      double rounds, double fill);

/* Latencies that the return adds after one pass over all groups: each round of the pass needs data
 * of the opposite group, and begins one latency later where that group is also a pair. */
static inline double sched_fold_back(const sched_folded *f)
{
    return 2 * f->pairs > f->groups ? 1 : 0;
}

#endif
