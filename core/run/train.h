/* run/train.h: one rank of a training job, from the INI to the last step. */
#ifndef RUN_TRAIN_H
#define RUN_TRAIN_H

#include "run/prepare.h"

/* Where a run starts. */
typedef enum run_resume_mode {
    TRAIN_AFRESH, /* at step 1; an earlier run in OUT is renamed */
    TRAIN_RESUME, /* after the newest checkpoint, with the settings of the job that saved it: see
                     config/differ.h */
    TRAIN_AUTO,   /* like TRAIN_RESUME if there is a checkpoint, else at step 1 in the same OUT */
    TRAIN_FORCE,  /* after the newest checkpoint, with any settings */
} run_resume_mode;

/* Runs this process as one rank of a job. Returns the exit status; if it is not 0, the reason has
 * been written to standard error. STOP_STATUS (job/stop.h): stopped on request, and nothing is
 * lost. `files` NULL: checkpoint.init names checkpoints alone. [setup] */
int run_train_rank(config *cfg, run_resume_mode resume, const run_foreign_files *files);

/* Ends a rank whose config could not be loaded: reports the error, through the launcher if there is
 * one, and returns the exit status. [setup] */
int run_train_refuse(weft_status st);

#endif
