/* run/state/local.h: this rank's part of a parameter or state, and writing values into it.
 *
 * A rank holds one or two extents of the same block of a tensor (plan.h): the values and the
 * compute copy, either of which may be a slice of the other. */
#ifndef RUN_STATE_LOCAL_H
#define RUN_STATE_LOCAL_H

#include "run/exec/executor.h"

#define LOCAL_CHUNK (1u << 18) /* elements in host memory at once */

typedef struct run_local {
    const plan_piece *x;
    plan_extent held, copied;
    uint64_t first, end; /* of the block's elements: the union of both */
} run_local;

run_local run_local_find(const run_executor *e, const plan_piece *x);

/* Write n values of the piece's type, starting at element `first` of the block, to every extent
 * that has them. scratch [n] */
weft_status run_local_put(run_executor *e, const run_local *l, uint64_t first, const void *v,
                          uint64_t n, uint16_t *scratch);

/* Convert n fp32 values to n of the element type `dtype`, rounded to nearest; `out` may be v. */
void run_local_convert(uint32_t dtype, const float *v, uint64_t n, void *out);

#endif
