/* run/inputs.h: the inputs of a pass, in host memory and in the arena. */
#ifndef RUN_INPUTS_H
#define RUN_INPUTS_H

#include "data/source.h"
#include "graph/inputs.h"
#include "run/exec/executor.h"

/* The rows of a micro-batch that the data-parallel rank has. */
typedef struct run_inputs {
    /* [micro_batch, sequence, row] of spec.fields, in their types; NULL: the plan has no such input
     */
    void *field[GRAPH_MAX_FIELDS];
    uint64_t sample_bytes[GRAPH_MAX_FIELDS];
    bool any;            /* the plan has one of them */
    int32_t *positions;  /* [micro_batch, sequence] */
    uint16_t *rounded;   /* one input in the compute type; NULL: none is rounded */
    int64_t first_token; /* number in the whole run of the first row of the micro-batch, the same on
                            all ranks (weft/graph.h, input) */
} run_inputs;

/* Allocates the buffers and fills in the positions; run_inputs_free() frees them. [setup] */
void run_inputs_take(run_inputs *in, const plan *p);
void run_inputs_free(run_inputs *in);

/* Reads `count` samples from number `first` on to place `at` of the micro-batch, or nothing where
 * the plan has no field as input. [compute] */
weft_status run_inputs_read(run_inputs *in, data_set *from, uint64_t first, uint64_t count,
                            uint64_t at);

/* Writes the inputs that the plan has, this rank's part of them, to the arena; WEFT_F32 data of an
 * input in the compute type is rounded to it. [compute] */
weft_status run_inputs_fill(run_executor *e, uint32_t micro_batch, const run_inputs *in);

/* Writes what is equal for a whole step: the scalar "step", where the plan has it. [compute] */
weft_status run_inputs_step(run_executor *e, uint64_t step);

#endif
