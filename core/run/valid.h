/* run/valid.h: the loss of a run's validation samples. */
#ifndef RUN_VALID_H
#define RUN_VALID_H

#include "run/inputs.h"

/* Batches of an evaluation that may take `wanted`: as many as `samples` fill, so that none counts
 * twice; one where they fill none. */
uint64_t run_valid_batches(uint64_t wanted, uint64_t samples, uint64_t batch);

/* The mean over the batches that train.eval_batches allows, in the order of the data: the same
 * samples on every layout. `in` is filled. [collective] */
weft_status run_valid_loss(run_executor *e, run_inputs *in, data_set *valid, double *out);

#endif
