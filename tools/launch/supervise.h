/* launch/supervise.h: one rank of another launcher (srun, mpirun, torchrun), started again
 * when its job has failed.
 *
 * The process that the launcher has started stays, so the launcher sees a task that runs. It starts
 * the rank as its child, with the launcher's environment, passes signals on, and starts it again
 * when it has failed. All ranks of the job do so: one failure ends all of them, and they meet again
 * at rank 0 as the next attempt. A rank that is behind learns the newest number at rank 0 and
 * follows, which counts as no failure; one that is cut off from rank 0 cannot continue, so at most
 * one side of a partition does. */
#ifndef LAUNCH_SUPERVISE_H
#define LAUNCH_SUPERVISE_H

#include "job/job.h"

typedef struct launch_supervise_args {
    uint32_t max; /* restarts in a row without progress (policy.h) */

    /* The arguments of the rank; `furthest` is the step that attempts before have reached. The
     * result is freed with free(). */
    char **(*arguments)(void *user, uint64_t furthest);
    void *user;
} launch_supervise_args;

/* Returns the exit status: that of the last attempt, 1 for a rank that was killed. Call it from the
 * main thread before any other is started. [setup] */
int launch_supervise(const job_identity *who, const launch_supervise_args *args);

#endif
