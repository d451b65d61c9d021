/* run/view/metrics.h: OUT/metrics.jsonl, one JSON object per step. */
#ifndef RUN_VIEW_METRICS_H
#define RUN_VIEW_METRICS_H

#include <stdint.h>
#include <stdio.h>
#include <weft/base.h>

/* Open OUT/metrics.jsonl for appending; create it if it does not exist. With `after` > 0, lines of
 * later steps and an incomplete last line are removed first, and the log says if lines up to
 * `after` are missing. WEFT_IO: it cannot be read, and is unchanged. WEFT_USAGE: it is not a
 * regular file. [setup] */
weft_status run_metrics_open(const char *out, uint64_t after, FILE **file);

typedef struct metric {
    const char *name;
    double value;
} metric;

typedef struct metrics {
    uint64_t step, tokens, comm_bytes, peak_bytes;
    double loss, grad_norm, lr, step_ms, tokens_per_s;
    double mfu; /* operations of a step / its time / the peak rate of all ranks */
    double exposed_comm_ms, compute_ms, bubble_ms, optimizer_ms; /* add up to step_ms */
    double valid_loss; /* < 0: not evaluated in this step */
    double skipped;    /* steps skipped so far */
    double scale;      /* loss scale after the step; 0: the loss is not scaled */
    const char *flops_rule;
    const metric *told; /* [ntold] scalars of plugins, whose names have a dot */
    uint32_t ntold;
} metrics;

/* Write one line and flush it. A full disk is WEFT_IO. */
weft_status run_metrics_write(FILE *file, const metrics *m);

#endif
