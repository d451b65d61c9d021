/* run/view/metrics.h: the values of a step, and the table that says what each is. docs/METRICS.md
 * is printed from it. */
#ifndef RUN_VIEW_METRICS_H
#define RUN_VIEW_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/sink.h>

typedef struct run_metric {
    const char *name;
    double value;
} run_metric;

/* What ranks exchange: the time of a step and its parts, memory, and bytes sent. */
typedef enum run_metrics_part {
    METRICS_STEP,
    METRICS_COMPUTE,
    METRICS_EXPOSED,
    METRICS_BUBBLE,
    METRICS_OPTIMIZER,
    METRICS_RESIDENT,
    METRICS_SENT,
    METRICS_PARTS
} run_metrics_part;

/* One of them on all ranks. */
typedef struct run_metrics_spread {
    double max, min, mean;
    uint64_t max_rank;
} run_metrics_spread;

typedef struct run_metrics_ranks {
    uint64_t steps; /* that these are means of; 0: no exchange followed the step */
    uint64_t slowest;
    run_metrics_spread part[METRICS_PARTS];
} run_metrics_ranks;

typedef struct run_metrics {
    uint64_t step, tokens, comm_bytes, peak_bytes, resident_bytes;
    uint64_t verify_bytes; /* hashed after the step; 0: replicas were not compared */
    double verify_ms;
    double loss, grad_norm, lr, step_ms, tokens_per_s;
    double mfu; /* operations of a step / its time / the peak rate of all ranks */
    double exposed_comm_ms, compute_ms, bubble_ms, optimizer_ms; /* add up to step_ms */
    double valid_loss;                 /* < 0: not evaluated in this step */
    double skipped;                    /* steps skipped so far */
    double scale;                      /* loss scale after the step; 0: the loss is not scaled */
    double save_stop_ms, save_copy_ms; /* a save that began before the step; 0: none did */
    double save_write_ms;    /* of a save that was completed before the step; 0: none was */
    run_metrics_ranks ranks; /* ranks.h */
    const run_metric *axes;  /* [naxes] exposed communication along each mesh axis */
    const run_metric *told;  /* [ntold] scalars of plugins, whose names have a dot */
    uint32_t naxes, nscalars;
    bool skips; /* this step was skipped */
} run_metrics;

/* The most values that run_metrics_list() writes for a step with `told` scalars. */
uint32_t run_metrics_max(uint32_t told);

/* What sinks get of a step: its values that are not absent, always in the same order. Returns how
 * many. [compute] */
uint32_t run_metrics_list(const run_metrics *m, weft_metric *out);

/* Whether the step was evaluated. */
bool run_metrics_evaluated(const run_metrics *m);

/* The table of docs/METRICS.md. */
void run_metrics_print_table(FILE *out);

#endif
