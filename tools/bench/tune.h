/* bench/tune.h: measures the alpha-beta costs of a link with a group of ranks. */
#ifndef BENCH_TUNE_H
#define BENCH_TUNE_H

#include "bench/fit.h"
#include "comm/comm.h"

#define TUNE_POINTS 24 /* at most */

/* What a point says something of. */
#define TUNE_NOTHING 0u
#define TUNE_SENT 1u
#define TUNE_MAPPED 2u  /* bytes that are loaded and stored, after messages */
#define TUNE_REDUCED 3u /* bytes that are read */
typedef struct bench_tune_point {
    uint32_t what;
    bench_fit_point at;
} bench_tune_point;

typedef struct bench_tune bench_tune; /* opaque: the operations of all points */

/* Adds them to the channel, in which this rank is `me`; `dtype` is what is reduced. Between
 * comm_add_channel() and comm_connect(). [setup] [collective] */
weft_status bench_tune_create(comm_channel *c, uint32_t ranks, uint32_t me, uint64_t link_caps,
                              uint32_t dtype, bench_tune **out);
void bench_tune_destroy(bench_tune *t); /* after the world; NULL allowed */

uint64_t bench_tune_memory(const bench_tune *t); /* bytes that bench_tune_run() needs */
uint32_t bench_tune_points(const bench_tune *t);

/* Measure point `i`: the median of a few rounds, of the slowest rank. [collective] */
weft_status bench_tune_run(bench_tune *t, uint32_t i, void *memory, bench_tune_point *out);

/* The costs from points in any order. [any] */
void bench_tune_fit(const bench_tune_point *p, uint32_t n, sched_cost *out);

#endif
