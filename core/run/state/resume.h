/* run/state/resume.h: checks whether this job may resume from a checkpoint. */
#ifndef RUN_STATE_RESUME_H
#define RUN_STATE_RESUME_H

#include "ckpt/ckpt.h"
#include "run/train.h"

/* Add the identity of the training data (weft/data.h) to the job's text, which checkpoints store.
 * So the same data is recognized under another path. [setup] */
void run_resume_describe_data(run_prepared *j);

/* Compare the job that saved `c` with this one: the keys that change results (config/differ.h) and
 * the identity of the training data. WEFT_USAGE names every difference with both values; with
 * `force` each is logged as a warning instead. [setup] */
weft_status run_resume_check(const run_prepared *j, const ckpt *c, bool force);

#endif
