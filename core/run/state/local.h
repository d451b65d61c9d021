/* run/state/local.h: this rank's part of a parameter or state, and writing values into it.
 *
 * A rank holds one or two extents of the same block of a tensor (plan.h): the values and the
 * compute copy, either of which may be a slice of the other. */
#ifndef RUN_STATE_LOCAL_H
#define RUN_STATE_LOCAL_H

#include "ckpt/ckpt.h"
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

/* Where values of pieces come from. */
typedef struct run_source {
    const char *what;                 /* that takes long, for the log */
    bool (*has)(const plan_piece *p); /* NULL: it has all */
    /* Reads the elements that `want` says into v; may change the name in it. */
    weft_status (*read)(void *from, const plan_piece *p, ckpt_piece *want, float *v);
    void *from;
} run_source;

/* Fill this rank's part of every piece that the source has, in chunks of LOCAL_CHUNK. [setup] */
weft_status run_local_load(run_executor *e, const run_source *s);

/* Convert n fp32 values to n of the element type `dtype`, rounded to nearest; `out` may be v. */
void run_local_convert(uint32_t dtype, const float *v, uint64_t n, void *out);

#endif
