/* run/saved/evaluate.h: the loss of a model from a checkpoint on data.
 *
 * It runs the list that a training job runs for train.eval_every, on the samples in the same order
 * and micro-batches of the same size, so that the loss has the bits of `valid_loss` where data and
 * layout are those of the job and `batches` is its train.eval_batches.
 *
 * By default every sample counts exactly once. Those that fill no micro-batch of all data-parallel
 * ranks run in micro-batches that have some of them several times, each equally often. */
#ifndef RUN_SAVED_EVALUATE_H
#define RUN_SAVED_EVALUATE_H

#include "run/saved/saved.h"

#include <stdio.h>

typedef struct run_evaluate_options {
    run_saved_args saved; /* data.valid among the overrides, where the job's own is not meant */
    uint64_t batches;     /* of train.batch samples, as train.eval_batches counts; 0: all samples */
    bool json;
} run_evaluate_options;

/* Returns the exit status, and prints or passes on the record of a failure. [setup] [collective] */
int run_evaluate(const run_evaluate_options *o, FILE *to);

#endif
