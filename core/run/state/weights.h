/* run/state/weights.h: parameters and states between the arena and the world outside it. */
#ifndef RUN_STATE_WEIGHTS_H
#define RUN_STATE_WEIGHTS_H

#include "ckpt/ckpt.h"
#include "run/exec/exec.h"

/* Initial parameters from (seed, name, element), states zero; the same on every layout. [setup] */
weft_status weights_init(executor *e, uint64_t seed);

/* What this rank has of all parameters, and for a training plan of all states and counters, from a
 * checkpoint of any layout. `plans`: all of the job, which has to have every tensor. [setup] */
weft_status weights_load(executor *e, const plan_set *plans, const ckpt *c);

/* Run the save list: each rank writes what it owns, rank 0 commits. On failure nothing is left
 * behind and the last good checkpoint stands. [setup] [collective] */
weft_status weights_save(executor *e, const char *out_dir, uint64_t step, uint32_t keep);

#endif
