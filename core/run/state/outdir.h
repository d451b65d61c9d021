/* run/state/outdir.h: OUT, the output folder of a run. */
#ifndef RUN_STATE_OUTDIR_H
#define RUN_STATE_OUTDIR_H

#include "run/state/outlock.h"

#include <stdbool.h>
#include <weft/base.h>

/* Rank 0: create OUT with its parents and lock it, so that no other job can use it until
 * run_outlock_release(). With `anew` a run in OUT is first renamed to OUT.1, OUT.2, ... WEFT_USAGE:
 * another job holds the lock for more than `timeout` seconds; OUT is then unchanged. [setup] */
weft_status run_outdir_prepare(const char *out, bool anew, double timeout, run_outlock *lock);

/* How a run may start: from a checkpoint in OUT (`goes_on`), or at step 1 (`begins`); with both,
 * from a checkpoint if there is one. */
typedef struct run_outdir_mode {
    bool goes_on, begins;
} run_outdir_mode;

/* All ranks: rank 0 calls run_outdir_prepare() accordingly and tells the others whether the run
 * resumes (*resume); then every rank acquires the lock. WEFT_USAGE on all ranks if OUT is another
 * folder for one than for rank 0; the error names such ranks and their hosts. `who` is this rank,
 * `j` NULL for one rank. [setup] [collective] */
weft_status run_outdir_meet(const char *out, run_outdir_mode wish, double timeout, job *j,
                            const job_identity *who, run_outlock *lock, bool *resume);

#endif
