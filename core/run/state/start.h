/* run/state/start.h: a run that begins with given weights ([checkpoint] init). */
#ifndef RUN_STATE_START_H
#define RUN_STATE_START_H

#include "ckpt/ckpt.h"
#include "run/exec/executor.h"
#include "run/prepare.h"

/* What can be known of checkpoint.init before anything is changed: that it is there, can be read,
 * and for a folder of Hugging Face that its model is that of the plan. [setup] */
weft_status run_start_check(const run_prepared *j);

/* Initial values, and where checkpoint.init is set weights from it: a folder of Hugging Face, or a
 * checkpoint of any job and layout; states and counters are those of a new run. Each rank reads its
 * own part, in chunks. WEFT_USAGE: the model is another one, or ranks see different files. [setup]
 * [collective] */
weft_status run_start(run_executor *e, const run_prepared *j, const ckpt_team *team);

/* All ranks have read `what`, which may take longer than the deadline of a step, and what they saw
 * has the same digest. `mine` is this rank's status, whose record stays; WEFT_PEER: another rank
 * could not, and says why itself. [setup] [collective] */
weft_status run_start_agree(const ckpt_team *t, const char *tag, const char *what, weft_status mine,
                            uint64_t digest);

#endif
