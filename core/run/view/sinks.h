/* run/view/sinks.h: the sinks of a run (weft/sink.h): they get the values of every step and what
 * happens between steps. Rank 0 has them, other ranks none: there every call does nothing.
 *
 * A run does not end because of a sink: one that fails is closed, which the log says once, and the
 * run goes on without it. Only wrong options end it, before the first step. */
#ifndef RUN_VIEW_SINKS_H
#define RUN_VIEW_SINKS_H

#include "resolve/spec.h"
#include "run/settings.h"
#include "run/view/meter.h"
#include "run/view/metrics.h"

typedef struct run_sinks {
    const spec *spec;
    weft_sink *open[SPEC_SINKS]; /* by number in the spec; NULL: it has failed */
    uint32_t n;                  /* that were opened */
    run_meter *meter;            /* values of plugins */
    weft_metric *values;         /* room for those of a step */
} run_sinks;

/* What a run says of itself to its sinks. */
typedef struct run_sinks_for {
    const spec *spec;
    config *cfg; /* of the sinks' own keys */
    const run_settings *set;
    run_meter *meter;
    uint32_t ranks, told; /* scalars that run_metrics_list() gets, at most */
    uint64_t after;       /* the run continues after this step; 0: it begins */
} run_sinks_for;

/* Open the sinks on rank 0. One that fails with WEFT_IO is left out; any other failure is
 * returned. After a failure, too, run_sinks_close(). [setup] */
weft_status run_sinks_open(const run_sinks_for *f, run_sinks *out);

/* A step is complete. [compute] */
void run_sinks_step(run_sinks *s, const run_metrics *m);

/* Something happened after `step`; `name` is one of sink.h. [setup] */
void run_sinks_event(run_sinks *s, const char *name, uint64_t step, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Close all in reverse order. All zero is allowed. [setup] */
void run_sinks_close(run_sinks *s);

#endif
