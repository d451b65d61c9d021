/* run/view/trace.h: a timeline of chosen steps for chrome://tracing and Perfetto.
 *
 * Events of these steps are stored in memory that set-up allocated. After each step they are
 * appended to a part, a file in OUT for each rank, so that they survive a crash. At the end rank 0
 * merges the parts into OUT/trace.json and converts all times to its own clock. When the job fails,
 * the first rank that is ready merges the parts that exist, those of dead ranks included. */
#ifndef RUN_VIEW_TRACE_H
#define RUN_VIEW_TRACE_H

#include "job/job.h"
#include "run/view/spans.h"

#include <stdio.h>

#define TRACE_COMPUTE 0u
#define TRACE_COMM 1u
#define TRACE_KERNEL 2u /* the kernels of a TRACE_COMPUTE call */
#define TRACE_PLUGIN 3u /* the first of SPANS_LANES lanes of plugins (spans.h) */

typedef struct run_trace_event {
    const char *name; /* borrowed from the plan */
    uint64_t began, ended;
    uint32_t lane, step;
} run_trace_event;

typedef struct run_trace {
    uint64_t first, last; /* steps, both included; first > last: none */
    run_trace_event *events;
    uint64_t n, cap;
    FILE *part;       /* NULL: no steps were chosen, or it is closed */
    run_spans *spans; /* of plugins; borrowed; NULL: none */
} run_trace;

/* `steps`: "10-12", "7" or "" for none. `entries`: the maximum number of events in a step. [setup]
 */
weft_status run_trace_setup(const char *steps, uint64_t entries, run_trace *out);
void run_trace_free(run_trace *t);

static inline int run_trace_wants(const run_trace *t, uint64_t step)
{
    return step >= t->first && step <= t->last && t->n < t->cap;
}

void run_trace_note(run_trace *t, const char *name, uint32_t lane, uint64_t step, uint64_t began,
                    uint64_t ended);

/* Open this rank's part in `out_dir`, which takes the spans of plugins as well, and measure the
 * offset of its clock from that of rank 0. Does nothing if no steps were chosen. [setup]
 * [collective] */
weft_status run_trace_begin(run_trace *t, run_spans *spans, job *j, const job_identity *who,
                            const char *out_dir);

/* Append the stored events to the part. Call it between steps. [setup] */
void run_trace_flush(run_trace *t);

/* At the regular end: merge all parts into OUT/trace.json and remove them. [setup] [collective] */
weft_status run_trace_write(run_trace *t, job *j, uint32_t rank, uint32_t ranks,
                            const char *out_dir);

/* After a failure: one of the remaining ranks merges the parts that exist, after waiting up to 0.4
 * s for those of others. Parts that cannot be merged are left in place. Clears this thread's error
 * record if it fails itself. [setup] */
void run_trace_rescue(run_trace *t, uint32_t ranks, const char *out_dir);

#endif
