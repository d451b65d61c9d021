/* run/view/ranks.h: the times of a step, memory and traffic on all ranks, for the metrics of rank
 * 0: which rank is the slowest, and how far the ranks are apart.
 *
 * The ranks exchange their means over the steps since the exchange before, which costs a round to
 * rank 0. So all ranks choose from what they have exchanged how many steps the next one is away: as
 * many as keep exchanges at RANKS_SHARE of the time of a step. A rank that is early waits, as it
 * would in the next step; what counts as cost is the time of the rank that has waited the least. */
#ifndef RUN_VIEW_RANKS_H
#define RUN_VIEW_RANKS_H

#include "job/job.h"
#include "run/view/metrics.h"

#define RANKS_SHARE 0.002  /* of the time of the steps between two exchanges */
#define RANKS_MAX 1000000u /* steps between two exchanges */

/* Means of one rank over steps: what an exchange carries. */
typedef struct run_ranks_part {
    float part[METRICS_PARTS]; /* in the order of run_metrics_part; times in ms */
    float cost_ms;             /* of this rank's last exchange */
} run_ranks_part;

typedef struct run_ranks {
    job *job; /* NULL: one rank, nothing is exchanged */
    uint32_t rank, n;
    uint64_t next; /* the step after which ranks exchange */
    uint64_t steps;
    double sum[METRICS_PARTS]; /* of these steps */
    double cost_ms;
    run_ranks_part *all;
} run_ranks;

/* The first exchange follows step `first`. [setup] */
void run_ranks_begin(run_ranks *r, job *j, uint32_t rank, uint32_t ranks, uint64_t first);
void run_ranks_free(run_ranks *r);

/* Step m->step is complete on this rank; sets m->ranks where ranks have exchanged after it. [setup]
 * [collective] */
weft_status run_ranks_step(run_ranks *r, run_metrics *m);

/* What `n` ranks have measured, of `steps` steps. Pure. */
run_metrics_ranks run_ranks_sum(const run_ranks_part *all, uint32_t n, uint64_t steps);

/* How many steps the next exchange is away. Pure: the same on all ranks. */
uint64_t run_ranks_distance(const run_ranks_part *all, uint32_t n);

#endif
