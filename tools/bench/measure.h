/* bench/measure.h: measures a collective over a channel, size by size: the rows of the table of
 * `weft bench comm`. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "comm/comm.h"
#include "resolve/spec.h"

typedef struct bench_measure bench_measure; /* opaque: the operations of all sizes */

typedef struct bench_measure_request {
    uint32_t kind, dtype;
    uint32_t ranks, me;
    int in_place;
    uint64_t min, max, factor; /* bytes of the larger side: min, min * factor, ... up to max */
    uint64_t link_caps;
    const sched_layout *layout; /* sched_request's */
    const sched_cost *cost;     /* likewise */
    const char *algorithm;      /* or rules: sched_rule() */
    uint64_t chunk;             /* sched_request's */
    double seconds;             /* that a row may take, about; 0: a fixed number of operations */
    int serialized;             /* each operation begins when all ranks have ended the one before */
} bench_measure_request;

typedef struct bench_measure_row {
    uint64_t bytes, count; /* of the larger side */
    const char *algorithm;
    double us;           /* mean time of one operation, of the slowest rank */
    double algbw, busbw; /* GB/s; busbw counts what the best algorithm has to move per rank */
    uint64_t wrong;      /* elements, over all ranks */
} bench_measure_row;

/* Whether this algorithm exists and supports the operation; q->algorithm is ignored. [any] */
int bench_measure_able(const bench_measure_request *q, const char *algorithm);

/* Fails if every mesh axis with several ranks goes over a library of collectives: what is measured
 * are the core's algorithms over links. [setup] */
weft_status bench_measure_check_links(const spec *s);

/* Adds the operations of all sizes to the channel. Between comm_add_channel() and comm_connect().
 * [setup] [collective] */
weft_status bench_measure_create(comm_channel *c, const bench_measure_request *r,
                                 bench_measure **out);
void bench_measure_destroy(bench_measure *m); /* after the world; NULL allowed */

uint32_t bench_measure_rows(const bench_measure *m);
uint64_t bench_measure_memory(const bench_measure *m); /* bytes that bench_measure_run() needs */

/* Time row `i`, then check one operation with numbers that say whose they are. [collective] */
weft_status bench_measure_run(bench_measure *m, uint32_t i, void *memory, bench_measure_row *out);

/* Row `i` before it is run: its size, and its algorithm. */
uint64_t bench_measure_bytes(const bench_measure *m, uint32_t i);
const char *bench_measure_algorithm(const bench_measure *m, uint32_t i);

/* Prediction of the model for row `i`: seconds by its own algorithm, negative where unknown, and
 * the algorithm that `auto` would select with these costs. */
double bench_measure_predict(const bench_measure *m, uint32_t i, const sched_cost *cost,
                             const char **choice);

/* The kind of "all_reduce"; 0 for an unknown name. Point-to-point kinds are not measured. */
uint32_t bench_measure_kind(const char *name);

/* No rank can finish it before all ranks have begun. */
int bench_measure_is_mutual(uint32_t kind);

#endif
