/* run/state/resume.h: checks whether this job may resume from a checkpoint. */
#ifndef RUN_STATE_RESUME_H
#define RUN_STATE_RESUME_H

#include "ckpt/ckpt.h"
#include "run/prepare.h"

/* Add the identity of the training data (weft/data.h) to the job's text, which checkpoints store.
 * So the same data is recognized under another path. [setup] */
void run_resume_describe_data(run_prepared *j);

/* On every rank: data that says another thing of itself than when `c` was saved is opened as it was
 * then, so that a checkpoint goes on with the samples that its program would have drawn. On the
 * first rank: compare the job that saved `c` with this one, keys that change results
 * (config/differ.h) and the identity of the training data. WEFT_USAGE names every difference with
 * both values; with `force` each is logged as a warning instead. [setup] */
weft_status run_resume_check(run_prepared *j, const ckpt *c, bool first, bool force);

#endif
