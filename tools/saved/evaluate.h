/* saved/evaluate.h: the loss of a model from a checkpoint on data.
 *
 * It runs the list that a training job runs for train.eval_every, on the samples in the same order
 * and micro-batches of the same size, so that the loss has the bits of `valid_loss` where data and
 * layout are those of the job and `batches` is its train.eval_batches.
 *
 * By default every sample counts exactly once. Those that fill no micro-batch of all data-parallel
 * ranks run in micro-batches that have some of them several times, each equally often. */
#ifndef SAVED_EVALUATE_H
#define SAVED_EVALUATE_H

#include "saved/saved.h"

#include <stdio.h>

typedef struct saved_evaluate_options {
    saved_args saved; /* data.valid among the overrides, where the job's own is not meant */
    uint64_t batches; /* of train.batch samples, as train.eval_batches counts; 0: all samples */
    bool json;
} saved_evaluate_options;

/* Returns the exit status, and prints or passes on the record of a failure. [setup] [collective] */
int saved_evaluate(const saved_evaluate_options *o, FILE *to);

#endif
