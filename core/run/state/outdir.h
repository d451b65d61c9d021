/* run/state/outdir.h: the folder of a run, and its metrics file. */
#ifndef RUN_STATE_OUTDIR_H
#define RUN_STATE_OUTDIR_H

#include "run/state/outlock.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/base.h>

/* Make OUT ready (rank 0) and lock it, so that `*lock` keeps every other job out until
 * outlock_release(). Then OUT is there, with its parents. With `anew` a run that OUT holds is
 * renamed OUT.1, OUT.2, ... An OUT that another job holds for `patience` seconds longer is refused
 * and left as it is. [setup] */
weft_status outdir_prepare(const char *out, bool anew, double patience, outlock *lock);

/* Where a run begins: after a checkpoint that OUT has (`goes_on`), or anew (`begins`); with both,
 * the first where there is one. */
typedef struct outdir_wish {
    bool goes_on, begins;
} outdir_wish;

/* outdir_prepare() by what is wished. `*resume`: OUT has a checkpoint to go on from. With both
 * wishes that is asked once more under the lock, because a job that held it until then may have
 * saved meanwhile; a run without a checkpoint is then written over, and the log says so. [setup] */
weft_status outdir_begin(const char *out, outdir_wish wish, double patience, outlock *lock,
                         bool *resume);

/* Open OUT/metrics.jsonl for appending, and make it where there is none. With `after` > 0 lines of
 * later steps, and a line that was not written whole, are cut off first; the log says if lines up
 * to `after` are missing. One that cannot be read is WEFT_IO and left as it is, and what is no file
 * is WEFT_USAGE. [setup] */
weft_status metrics_open(const char *out, uint64_t after, FILE **file);

typedef struct metrics {
    uint64_t step, tokens, comm_bytes, peak_bytes;
    double loss, grad_norm, lr, step_ms, tokens_per_s;
    double mfu; /* operations of a step, by the time that it took and the peak of all ranks */
    double exposed_comm_ms, compute_ms, bubble_ms, optimizer_ms; /* add up to step_ms */
    double valid_loss; /* < 0: not evaluated in this step */
    double skipped;    /* steps skipped so far */
    double scale;      /* loss scale after the step; 0: the loss is not scaled */
    const char *flops_rule;
} metrics;

/* One flushed line. A full disk is an error, not a silence. */
weft_status metrics_write(FILE *file, const metrics *m);

#endif
