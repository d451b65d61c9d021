/* run/state/weights.h: initializing and loading parameters and optimizer states. */
#ifndef RUN_STATE_WEIGHTS_H
#define RUN_STATE_WEIGHTS_H

#include "ckpt/ckpt.h"
#include "run/exec/executor.h"

/* Initialize parameters from (seed, name, element) and states as they say, else with zero. The
 * values do not depend on the layout. [setup] */
weft_status run_weights_init(run_executor *e, uint64_t seed);

/* After that, and after parameters have been read from elsewhere: states whose initial values are
 * those of their parameter. [setup] */
weft_status run_weights_copy(run_executor *e);

/* Load this rank's part of all parameters, and for a training plan of all states and counters, from
 * a checkpoint of any layout. WEFT_USAGE if the checkpoint has a tensor that is in none of `plans`,
 * all plans of the job. [setup] */
weft_status run_weights_load(run_executor *e, const plan_set *plans, const ckpt *c);

#endif
