/* run/results.h: what a step has computed and how long it took, as metrics. */
#ifndef RUN_RESULTS_H
#define RUN_RESULTS_H

#include "resolve/spec.h"
#include "run/exec/executor.h"
#include "run/scalars.h"
#include "run/view/metrics.h"

typedef struct run_results {
    executor *exec;
    const spec *spec;
    run_scalars scalars;
    uint64_t skips_in_a_row;
    uint64_t peak_bytes; /* memory of the busiest rank's plan */
    double peak_flops;   /* of a rank; 0: unknown */
    /* at the begin of the step */
    run_exec_times before;
    uint64_t began_ns, sent;
} run_results;

/* A step begins. */
void run_results_begin(run_results *r);

/* The lists of the step have run: measures it and reads its scalars into `m`, which has the number
 * of the step. WEFT_IO: too many steps in a row were skipped. */
weft_status run_results_end(run_results *r, metrics *m);

#endif
