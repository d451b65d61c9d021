/* run/view/trace.h: a timeline of chosen steps for chrome://tracing and Perfetto (docs/TRACE.md).
 *
 * A traced step stores its events, which are appended to a part after it, a file in OUT for each
 * rank, so that they survive a crash. At the end the parts are merged into OUT/trace.json, on the
 * clock of rank 0: by rank 0, or after a failure by the first rank that is ready, from the parts
 * that exist, those of dead ranks included. */
#ifndef RUN_VIEW_TRACE_H
#define RUN_VIEW_TRACE_H

#include "job/job.h"
#include "plan/plan.h"
#include "run/view/spans.h"

/* Lanes. */
#define TRACE_COMPUTE 0u
#define TRACE_KERNEL 1u                              /* the kernels of a TRACE_COMPUTE call */
#define TRACE_COMM 2u                                /* the first of those of communication */
#define TRACE_COMM_LANES 32u                         /* operations at once */
#define TRACE_PLUGIN (TRACE_COMM + TRACE_COMM_LANES) /* the first of SPANS_LANES of plugins */

typedef struct run_trace_event {
    run_span span;            /* its name is borrowed */
    uint64_t live;            /* TRACE_COMPUTE: plan_entry.live */
    uint32_t collective, nth; /* TRACE_COMM: index in the plan; of the step's on its channel.
                                 TRACE_COMPUTE: 1 and the micro-batch, or 0 after the last one */
} run_trace_event;

typedef struct run_trace_parts run_trace_parts; /* run/view/trace_part.h */
typedef weft_status run_trace_join(const run_trace_parts *p);

/* What events of one run_trace_subject have in common. */
typedef struct run_trace_key {
    const char *name;
    uint64_t live;
    uint32_t collective; /* UINT32_MAX: it is no operation */
} run_trace_key;

typedef struct run_trace {
    uint64_t first, last; /* steps, both included; first > last: none */
    const plan *plan;
    uint32_t rank, *group;   /* [ranks] room for a group */
    run_trace_event *starts; /* [collective] the last one */
    uint32_t *started;       /* [channel] in this step */
    VEC(run_trace_event) events;
    VEC(run_trace_key) subjects; /* of the part */
    uint32_t *place, places;     /* [places] hash table: 1 + a subject's number; a power of two */
    uint64_t bytes, text;        /* of trace.json: most that this rank may take; what it takes */
    uint64_t left_out;           /* events that the part lacks */
    int error;                   /* an errno, why the part could not be written; 0: it could */
    int part;                    /* descriptor, as long as there is a room */
    int failed;                  /* the errno of a write since `settled` */
    uint64_t in_part, settled;   /* bytes: written; before the events that are being put */
    char *room; /* for what is written next; NULL: no steps were chosen, or it is over */
    uint32_t used;
    run_spans *spans;     /* of plugins; borrowed; NULL: none */
    run_trace_join *join; /* run_additions.join_trace; NULL: parts stay */
} run_trace;

/* Of the steps `first` to `last`; a lower last: none. `bytes`: of all, about. [setup] */
void run_trace_setup(uint64_t first, uint64_t last, uint64_t bytes, const plan *p, run_trace *out);
void run_trace_free(run_trace *t);

static inline int run_trace_wants(const run_trace *t, uint64_t step)
{
    return step >= t->first && step <= t->last;
}

/* In a step that it wants: store an event; a collective of the plan starts; it has ended, with
 * times of its own or (`began` 0) those of these calls. [compute] */
void run_trace_note(run_trace *t, run_trace_event e);
void run_trace_start(run_trace *t, uint32_t number, uint64_t step);
void run_trace_end(run_trace *t, uint32_t number, uint64_t began, uint64_t ended);

/* Open this rank's part in `out_dir`, which takes the spans of plugins as well, and measure the
 * offset of its clock from that of rank 0. Does nothing if no steps were chosen. [setup]
 * [collective] */
weft_status run_trace_begin(run_trace *t, run_spans *spans, run_trace_join *join, job *j,
                            const job_identity *who, const char *out_dir);

/* Remove what a run that was killed has left of a trace in `out_dir`, of any rank. Before any rank
 * of this one writes there. [setup] */
void run_trace_remove_left(const char *out_dir);

/* Append the stored events to the part. Call it between steps. [setup] */
void run_trace_flush(run_trace *t);

/* At the regular end: merge all parts. Where the folder takes no more, a warning says so: only a
 * rank that is gone is a failure. [setup] [collective] */
weft_status run_trace_write(run_trace *t, job *j, uint32_t rank, uint32_t ranks,
                            const char *out_dir);

/* After a failure: merge the parts that exist. Clears this thread's error record if it fails
 * itself. [setup] */
void run_trace_rescue(run_trace *t, uint32_t ranks, const char *out_dir);

#endif
