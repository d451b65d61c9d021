/* run/results.h: what a step has computed and how long it took, as metrics. */
#ifndef RUN_RESULTS_H
#define RUN_RESULTS_H

#include "resolve/spec.h"
#include "run/exec/executor.h"
#include "run/view/metrics.h"
#include "run/view/ranks.h"

typedef struct run_results {
    run_executor *exec;
    const spec *spec;
    char *scalars;        /* the plan's, read after a step by one copy and one wait */
    run_metric *reported; /* those of plugins whose names have a dot: metrics have them */
    uint32_t nreported;
    run_ranks ranks; /* their times */
    uint64_t skips_in_a_row;
    uint64_t peak_bytes;            /* memory of the busiest rank's plan */
    double peak_flops;              /* of a rank; 0: unknown */
    run_metric axes[WEFT_MAX_MESH]; /* exposed communication of each mesh axis */
    char name[WEFT_MAX_MESH][WEFT_MAX_NAME + 32];
    uint32_t axis[WEFT_MAX_MESH], naxes;
    /* at the begin of the step */
    run_exec_times before;
    uint64_t began_ns, sent;
} run_results;

/* `exec` and `spec` are set: make room for what steps measure, of which the first is `first`. */
void run_results_open(run_results *r, uint64_t first);
void run_results_close(run_results *r);

/* A step begins. */
void run_results_begin(run_results *r);

/* The lists of the step have run: measures it and reads its scalars into `m`, which has the number
 * of the step, and compares the times of all ranks now and then (view/ranks.h). WEFT_IO: too many
 * steps in a row were skipped. */
weft_status run_results_end(run_results *r, run_metrics *m);

#endif
