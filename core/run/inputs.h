/* run/inputs.h: the inputs of a pass, in host memory and in the arena. */
#ifndef RUN_INPUTS_H
#define RUN_INPUTS_H

#include "run/exec/executor.h"

/* Tokens of the part of a micro-batch that the data-parallel rank has. `first_token`: number in the
 * whole run of the first token of the micro-batch, the same on all ranks (weft/graph.h, input). */
typedef struct run_inputs {
    int32_t *tokens, *targets, *positions; /* [microbatch, sequence] */
    int64_t first_token;
} run_inputs;

/* Allocates the buffers and fills in the positions; run_inputs_free() frees them. [setup] */
void run_inputs_take(run_inputs *in, uint64_t microbatch, uint64_t sequence);
void run_inputs_free(run_inputs *in);

/* Writes the inputs that the plan has, this rank's part of them, to the arena. [compute] */
weft_status run_inputs_fill(executor *e, uint32_t micro_batch, const run_inputs *in);

/* Writes what is equal for a whole step: the scalar "step", where the plan has it. [compute] */
weft_status run_inputs_step(executor *e, uint64_t step);

#endif
