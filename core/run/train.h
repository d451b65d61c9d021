/* run/train.h: one rank of a training job, from the INI to the last step. */
#ifndef RUN_TRAIN_H
#define RUN_TRAIN_H

#include "run/prepare.h"
#include "run/view/trace.h"

/* Where a run starts. */
typedef enum run_resume_mode {
    TRAIN_AFRESH, /* at step 1; an earlier run in OUT is renamed */
    TRAIN_RESUME, /* after the newest checkpoint, with the settings of the job that saved it: see
                     config/differ.h */
    TRAIN_AUTO,   /* like TRAIN_RESUME if there is a checkpoint, else at step 1 in the same OUT */
    TRAIN_FORCE,  /* after the newest checkpoint, with any settings */
} run_resume_mode;

/* Rank 0 has the run's folder and begins with the step after `after`. */
typedef struct run_begin {
    const run_prepared *job;
    int folder; /* OUT, open; -1: it is not locked, go by the name job->set.out */
    uint64_t after;
    bool resumed;
    double peak_flops; /* of a rank, as metrics count them; 0: unknown */
} run_begin;

/* The run that `begin` is of has ended. */
typedef struct run_end {
    const run_begin *begin;
    uint64_t step;   /* the last one that it began */
    const char *why; /* a sentence; "": it has all its steps */
} run_end;

/* What a program that starts ranks adds to them; each may be NULL. */
typedef struct run_additions {
    const run_foreign_files *files; /* of checkpoint.init; NULL: checkpoints alone */

    /* Note what the run is, in its folder, and at its end why it ended. A failure is logged there
     * and ends no run. Each is called once, on rank 0; the second one if the first was. [setup] */
    void (*record)(const run_begin *b);
    void (*record_end)(const run_end *e);

    /* Merge the parts of a trace. Not `whole`: any rank may call it, and one of them merges. NULL:
     * the parts stay. [setup] */
    run_trace_join *join_trace;
} run_additions;

/* Runs this process as one rank of a job. Returns the exit status; if it is not 0, the reason has
 * been written to standard error. STOP_STATUS (job/stop.h): stopped on request, and nothing is
 * lost. [setup] */
int run_train_rank(config *cfg, run_resume_mode resume, const run_additions *more);

/* Ends a rank whose config could not be loaded: reports the error, through the launcher if there is
 * one, and returns the exit status. [setup] */
int run_train_refuse(weft_status st);

#endif
