/* run/state/outdir.h: OUT, the folder of a run. */
#ifndef RUN_STATE_OUTDIR_H
#define RUN_STATE_OUTDIR_H

#include "run/state/outlock.h"

#include <stdbool.h>
#include <weft/base.h>

/* Rank 0: create OUT with its parents and lock it, so that no other job can use it until
 * outlock_release(). With `anew` a run in OUT is first renamed to OUT.1, OUT.2, ... WEFT_USAGE:
 * another job holds the lock for more than `patience` seconds; OUT is then unchanged. [setup] */
weft_status outdir_prepare(const char *out, bool anew, double patience, outlock *lock);

/* Where a run may start: after a checkpoint in OUT (`goes_on`), or at step 1 (`begins`); with both,
 * after a checkpoint if there is one. */
typedef struct outdir_wish {
    bool goes_on, begins;
} outdir_wish;

/* Call outdir_prepare() accordingly. *resume: OUT has a checkpoint to resume from. With both wishes
 * this is checked again under the lock, because the job that held the lock may have saved one. A
 * run without a checkpoint is then overwritten, and the log says so. [setup] */
weft_status outdir_begin(const char *out, outdir_wish wish, double patience, outlock *lock,
                         bool *resume);

#endif
