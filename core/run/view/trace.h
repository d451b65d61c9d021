/* run/view/trace.h: what ran when, for chrome://tracing and Perfetto.
 *
 * Events of the chosen steps go into memory that set-up took. After each of these steps they are
 * appended to the rank's own part, a file in OUT, so that they survive the rank. At the end rank 0
 * joins the parts into OUT/trace.json, with all times on its own clock. When the job fails, the
 * first rank that is ready joins what there is, the parts of dead ranks included. */
#ifndef RUN_VIEW_TRACE_H
#define RUN_VIEW_TRACE_H

#include "job/job.h"

#include <stdio.h>

#define TRACE_COMPUTE 0u
#define TRACE_COMM 1u
#define TRACE_KERNEL 2u /* what a call of TRACE_COMPUTE consists of */

typedef struct trace_event {
    const char *name; /* borrowed from the plan */
    uint64_t began, ended;
    uint32_t lane, step;
} trace_event;

typedef struct trace {
    uint64_t first, last; /* steps, both included; first > last: none */
    trace_event *events;
    uint64_t n, cap;
    FILE *part; /* NULL: no steps were chosen, or it is closed */
} trace;

/* "10-12", "7" or "". `entries` is how many events a step has at most. [setup] */
weft_status trace_setup(const char *steps, uint64_t entries, trace *out);
void trace_free(trace *t);

static inline int trace_wants(const trace *t, uint64_t step)
{
    return step >= t->first && step <= t->last && t->n < t->cap;
}

void trace_note(trace *t, const char *name, uint32_t lane, uint64_t step, uint64_t began,
                uint64_t ended);

/* Open this rank's part in `out_dir` and find out how far its clock is from rank 0's. Does nothing
 * where no steps were chosen. [setup] [collective] */
weft_status trace_begin(trace *t, job *j, uint32_t rank, uint32_t ranks, const char *out_dir);

/* Append what was noted to the part. Between steps. [setup] */
void trace_flush(trace *t);

/* At a good end: write OUT/trace.json from all ranks' parts and remove these. [setup] [collective]
 */
weft_status trace_write(trace *t, job *j, uint32_t rank, uint32_t ranks, const char *out_dir);

/* After a failure: the same from the parts that are there, by one of the ranks that live; waits up
 * to 0.4 s for the parts of others. Keeps this thread's record only when nothing fails here. A part
 * stays where nobody could join it. [setup] */
void trace_rescue(trace *t, uint32_t ranks, const char *out_dir);

#endif
