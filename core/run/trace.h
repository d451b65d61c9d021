/* run/trace.h: what ran when, for chrome://tracing and Perfetto.
 *
 * Events of the chosen steps go into memory that set-up took, and are written at the end: each rank
 * its own part, which rank 0 joins into OUT/trace.json. */
#ifndef RUN_TRACE_H
#define RUN_TRACE_H

#include "job/job.h"

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

/* Write OUT/trace.json from all ranks' events. [setup] [collective] */
weft_status trace_write(const trace *t, job *j, uint32_t rank, uint32_t ranks, const char *out_dir);

#endif
