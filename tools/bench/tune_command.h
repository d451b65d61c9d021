/* bench/tune_command.h: what `weft tune comm` measures and prints. */
#ifndef BENCH_TUNE_COMMAND_H
#define BENCH_TUNE_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/measure.h"
#include "bench/measuring.h"
#include "bench/tune.h"
#include "plan/plan.h"

#define TUNE_ALGORITHMS 32
#define TUNE_SIZES 8
#define TUNE_PASSES 25 /* at most */

/* A transport, and the ranks between which its costs are found: all of a group of a mesh axis, or,
 * where an axis has one transport inside machines and one between them, those of a machine, or one
 * of each machine. */
typedef struct bench_tune_probe {
    const host_component *c;
    uint64_t score;            /* how well these ranks suit it, compared with others */
    uint32_t axis, role, link; /* link: of the world */
    uint32_t *rank, n, me;     /* the group of this rank; n < 2: it has no part in this */
    bench_tune *t;
    sched_cost cost;
} bench_tune_probe;

/* One collective by one algorithm. */
typedef struct bench_tune_row {
    bench_measure *m; /* NULL: the algorithm cannot do it here */
    double us[TUNE_SIZES][TUNE_PASSES];
} bench_tune_row;

/* The transport of a mesh axis, or its pair of them, as collectives use it. */
typedef struct bench_tune_part {
    const char *name, *axis; /* "shm+tcp"; mesh axis, or NULL without a job */
    uint32_t link, mesh_axis, ranks;
    const sched_layout *layout;
    uint32_t kind[MEASURING_KINDS], kinds, sizes;
    uint64_t bytes[TUNE_SIZES];
    bench_tune_row row[MEASURING_KINDS][TUNE_ALGORITHMS];
    sched_cost cost;
} bench_tune_part;

typedef struct bench_tune_set {
    const spec *s;
    config *cfg;        /* of the job */
    const config *keys; /* [tune] */
    uint32_t rank;
    bool of_job; /* mesh axes have names that the user knows */
    bench_tune_probe probe[2 * WEFT_MAX_MESH];
    bench_tune_part *part; /* [WEFT_MAX_MESH] */
    uint32_t probes, parts, passes;
    plan layouts; /* owns those of the parts */
} bench_tune_set;

/* tune_links.c: what there is to measure for this job; then the operations for it. Between
 * comm_world_create() and comm_connect(). [setup] [collective] */
void bench_tune_find(const spec *s, config *cfg, const config *keys, uint32_t rank, bool of_job,
                     bench_tune_set *out);
weft_status bench_tune_open(bench_tune_set *t, comm_world *w);
uint64_t bench_tune_capacity(const bench_tune_set *t); /* bytes of the arena */
void bench_tune_release(bench_tune_set *t);            /* after the world */
void bench_tune_cost_parts(
    bench_tune_set *t); /* the costs of the parts out of those of the probes */
bool bench_tune_maps(const bench_tune_set *t, const bench_tune_probe *p);

/* tune_print.c: measured and predicted times, the selection of `auto` with the new costs, and its
 * distance from the best. Sorts the measured times in place. */
void bench_tune_print(const bench_tune_set *t, bench_tune_part *p, FILE *to);

/* The costs of all probes as keys of a job, in place of `path` at once or not at all. Refused
 * before anything is measured is a path that is there and is no regular file. */
weft_status bench_tune_check_path(const char *path);
weft_status bench_tune_write(const char *path, const char *what, const bench_tune_set *t);

void bench_tune_print_keys(FILE *to, int markdown); /* "tune.op" and so on */

#endif
