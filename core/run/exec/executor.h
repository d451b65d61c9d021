/* run/exec/executor.h: one rank's executor, which runs a plan on a device.
 *
 * Set-up opens the device, allocates the arena, prepares every kernel and every collective, and
 * connects the ranks. After that, steps allocate and open nothing. Functions on an executor have
 * headers of their own: arena.h copies to and from the arena, kernels.h runs segments, recording.h
 * records and replays them, library.h runs the collectives of a library, walk.h walks a list,
 * sites.h knows where in it the rank is and how long that may take, and peak.h measures the peak
 * rate of the device. */
#ifndef RUN_EXEC_EXECUTOR_H
#define RUN_EXEC_EXECUTOR_H

#include "comm/comm.h"
#include "plan/plan.h"
#include "run/settings.h"
#include "run/view/flight.h"
#include "run/view/trace.h"

/* Where the time of lists went, since set-up. The rest of a step is the time of its passes. */
typedef struct run_exec_times {
    uint64_t exposed_ns; /* waits for collectives: communication that no computation hides */
    uint64_t axis_ns[WEFT_MAX_MESH]; /* of these, those along each mesh axis */
    uint64_t bubble_ns; /* waits for sends and receives: another pipeline stage is behind */
    uint64_t tail_ns;   /* after the passes, without such waits: norm and update */
} run_exec_times;

/* What running a kernel needs of it, side by side. */
typedef struct run_exec_kernel {
    void *prepared;         /* weft_prepared, or what a plugin's kernel made */
    const weft_kernel *own; /* as in the plan: a plugin's kernel; NULL: the device's */
} run_exec_kernel;

/* A collective of the plan, on this rank. */
typedef struct run_exec_collective {
    const struct run_exec_kind *kind; /* walk.c; NULL: of a group without this rank */
    comm_op *op;                      /* NULL: of such a group, or a library's */
    sched_schedule *schedule;         /* of `op` */
    char *scratch;                    /* of `op` */
    uint64_t from, to;                /* arena offsets */
} run_exec_collective;

typedef struct run_executor {
    const plan *plan;
    const run_settings *set;
    job *job; /* NULL for one rank */
    uint32_t rank;
    double deadline; /* limit of a wait in seconds */
    const weft_device_table *table;
    weft_device *device;
    weft_stream *stream;
    weft_event *event;
    char *base;                       /* of the arena */
    char *host;                       /* the plan's host memory, or NULL */
    struct recordings *graphs;        /* recorded work; NULL: none */
    run_exec_kernel *kernels;         /* as in the plan, prepared */
    comm_world *world;                /* NULL for one rank */
    struct run_coll_state *library;   /* collectives of libraries; NULL: none */
    run_exec_collective *collectives; /* as in the plan; NULL for one rank */
    uint64_t *bases;                  /* the plan's, on this rank */
    struct run_exec_sites *sites;     /* where the rank is, and what it may take (sites.h) */
    run_flight flight;
    run_trace trace;
    float residual_scale; /* of the error-feedback residuals in the next sums, for the links */
    uint64_t step;        /* now being run, for messages */
    run_exec_times times;
} run_executor;

/* Makes `p` ready to run on this rank; `set` outlives it. `out_dir` NULL: no flight record. The
 * caller destroys *out also after a failure. [setup] [collective] */
weft_status run_exec_create(const plan *p, const run_settings *set, job *j, const job_identity *who,
                            const char *out_dir, run_executor *out);

/* Free what run_exec_create() took. `failed`: operations may be in flight that never end. [setup]
 */
void run_exec_destroy(run_executor *e, int failed);

#endif
