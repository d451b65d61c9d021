/* run/state/resume.h: which run goes on: is there a checkpoint, and does this job belong to it? */
#ifndef RUN_STATE_RESUME_H
#define RUN_STATE_RESUME_H

#include "ckpt/ckpt.h"
#include "run/train.h"

/* Note in the job's text, which checkpoints keep, what data.train holds: its length, its vocabulary
 * and a digest of some of its tokens, so that the same tokens are known again under another path.
 * [setup] */
void resume_note_data(prepared_job *j);

/* Hold the job that saved `c` against this one, by the keys that bind (config/differ.h) and by the
 * tokens of data.train. WEFT_USAGE names every difference with both values; with `force` each is
 * logged as a warning instead. [setup] */
weft_status resume_check(const prepared_job *j, const ckpt *c, bool force);

#endif
