/* run/save/saver.h: saves of a run, beside its steps.
 *
 * A save at the end of a step copies what the rank writes into host memory and returns; a thread
 * then writes the checkpoint with the other ranks (run/save/write.h) while the next steps run. The
 * copy is allocated once, before the first step. One save is under way at a time: a second one
 * waits for it. Without `beside`, a save returns when the checkpoint is complete.
 *
 * A save that fails beside the steps fails run_saver_look() at the end of a step. Where another
 * rank is the cause, look() goes on: that rank ends the job with its own message. */
#ifndef RUN_SAVE_SAVER_H
#define RUN_SAVE_SAVER_H

#include "run/exec/executor.h"
#include "run/state/outlock.h"

typedef struct run_saver run_saver;

/* What has happened since the last look. */
typedef struct run_save_news {
    double stop_ms;    /* time in which the run stood still for a save; 0: none began */
    double copy_ms;    /* the part of it that the copy took */
    uint64_t complete; /* step of the checkpoint that is complete now; 0: none */
    double write_ms;   /* time that the rank took to write it, with the wait for the others */
} run_save_news;

/* Prepare saves of the executor's rank into run.out, which `lock` holds (NULL: nothing does); all
 * borrowed. `cfg` is written beside them. `sharing`: ranks that share this rank's CPUs. [setup] */
weft_status run_saver_open(run_executor *e, const config *cfg, run_outlock *lock, bool beside,
                           uint32_t sharing, run_saver **saver);

/* Save the state after `step`, which is later than that of the last save. An earlier save is waited
 * for, and if that failed, so does this one. Earlier checkpoints beyond checkpoint.keep are
 * removed, except those of steps up to `spared`. [collective] */
weft_status run_saver_begin(run_saver *s, uint64_t step, uint64_t spared);

/* At the end of a step: what has happened; fails if a save has failed. Does not wait. Look before
 * finish(), too, since each look tells of one complete checkpoint. NULL allowed. [compute] */
weft_status run_saver_look(run_saver *s, run_save_news *out);

/* Wait for the save that is under way; fails if one has failed. NULL allowed. [setup] */
weft_status run_saver_finish(run_saver *s);

/* After a failure: leave a save that is under way so many seconds, then end it. The record of this
 * thread is unchanged. NULL allowed. [setup] */
void run_saver_complete(run_saver *s, double seconds);

/* Free it, when no save is under way and before the device is closed. NULL allowed. [setup] */
void run_saver_close(run_saver *s);

#endif
