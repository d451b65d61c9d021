/* run/exec/exec.h: walks a plan.
 *
 * Set-up opens the device, takes the one arena, prepares every kernel and every collective, and
 * connects the ranks. Then exec_run() walks a list: a call runs its segment's kernels on the
 * compute stream, a start hands a collective to the links, a wait moves bytes until it is done.
 * Nothing is allocated or opened after set-up, no wait is without a deadline, and each entry is
 * noted in the flight record before it is begun. */
#ifndef RUN_EXEC_EXEC_H
#define RUN_EXEC_EXEC_H

#include "comm/comm.h"
#include "plan/plan.h"
#include "run/exec/library.h"
#include "run/view/flight.h"
#include "run/view/trace.h"

/* Where the time of lists went, since set-up; what is not here went into the passes. */
typedef struct exec_times {
    uint64_t exposed_ns; /* in waits for collectives: communication that nothing hid */
    uint64_t bubble_ns;  /* in waits for sends and receives: another stage was not as far */
    uint64_t tail_ns;    /* behind the passes, without such waits: norm and update */
} exec_times;

typedef struct executor {
    const plan *plan;
    const config *cfg; /* the job's */
    job *job;          /* NULL for one rank */
    uint32_t rank;
    double deadline; /* seconds a wait may last */
    const weft_device_table *table;
    weft_device *device;
    weft_stream *stream;
    weft_event *event;
    char *base;            /* of the arena */
    char *host;            /* the plan's host memory, or NULL */
    struct graphs *graphs; /* recorded work; NULL: none */
    void **kernels;        /* prepared: weft_prepared, or what a plugin's kernel made */
    comm_world *world;     /* NULL for one rank */
    colls *colls;          /* what libraries carry; NULL: nothing */
    comm_op **ops;         /* [collective]; NULL where a library carries it */
    comm_schedule **schedules;
    uint64_t *from, *to; /* [collective] arena offsets on this rank */
    uint64_t *bases;     /* the plan's, on this rank */
    flight flight;
    trace trace;
    float kept;    /* the scalar by which what compressed sums have kept counts, for the links */
    uint64_t step; /* now being run, for messages */
    exec_times times;
} executor;

/* Make `p` ready to run on this rank. `out_dir` NULL: no flight record. [setup] [collective] */
weft_status exec_create(const plan *p, const config *cfg, job *j, const job_identity *who,
                        const char *out_dir, executor *out);
void exec_destroy(executor *e, int failed); /* `failed`: others may not come to an end */

/* kernels.c: [setup], [compute], [setup] */
weft_status kernels_prepare(executor *e);
weft_status kernels_call(executor *e, const entry *x); /* a segment, with a call's bases */
void kernels_release(executor *e);

/* graphs.c: record what can be [setup]; where the work that was recorded from entry i on ends, i
 * itself where none was [compute]; forget it [setup] */
weft_status graphs_record(executor *e);
uint32_t graphs_end(const executor *e, const list *l, uint32_t i, weft_capture **work);
void graphs_free(executor *e);

/* Walk a list once. [compute] [collective] */
weft_status exec_run(executor *e, const list *l);

/* Hold the host until the device has done what it was given. [compute] */
weft_status exec_reach(executor *e);

/* Copy between host memory and the arena, and wait for it. [setup], between lists */
weft_status exec_write(executor *e, uint64_t offset, const void *from, uint64_t bytes);
weft_status exec_read(executor *e, uint64_t offset, void *to, uint64_t bytes);
weft_status exec_zero(executor *e, uint64_t offset, uint64_t bytes);
/* The arena itself where the host can see it, else a copy that `copies` holds. */
weft_status exec_view(executor *e, uint64_t offset, uint64_t bytes, pool *copies, const void **out);
weft_status exec_scalar(executor *e, const char *name, double *out);

/* The plan's scalars, as they are before the first step. [setup] */
weft_status exec_set_scalars(executor *e);

/* Floating-point operations a second that a device of this job reaches on a matrix product of the
 * job's compute type while all ranks are at work: on rank 0 the mean over the ranks, on another
 * rank its own. Uses the arena and leaves it zeroed. Before weights are there. [setup]
 * [collective] */
weft_status exec_measure_peak(executor *e, double *flops);

#endif
