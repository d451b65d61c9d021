/* run/valid.h: the loss of a run's validation samples. */
#ifndef RUN_VALID_H
#define RUN_VALID_H

#include "run/inputs.h"

/* The mean over train.eval_batches batches, or over all samples where there are fewer: the same
 * samples on every layout, in whole batches. `in` is filled. [collective] */
weft_status run_valid_loss(run_executor *e, run_inputs *in, data_set *valid, double *out);

#endif
