/* plan/lower/lower.h: lowers one block for a micro-batch to segments and communication between
 * them.
 *
 * Equal segments are stored once, so that a lowered block is valid for all micro-batches. */
#ifndef PLAN_LOWER_LOWER_H
#define PLAN_LOWER_LOWER_H

#include "plan/builder.h"

typedef struct item { /* a segment, or communication between two of them */
    bool comm;
    uint32_t segment;
    const char *name;
    uint32_t kind, mesh_axis, group, redop, dtype, root; /* group: 1 + its number; 0: none */
    uint64_t count;
    ref in, out;
} item;

typedef struct live_inout { /* the tensor of base BASE_FIRST + k */
    weft_tensor tensor;     /* 0: parameters or gradients of another flat block */
    uint32_t flat_block, grad;
} live_inout;

typedef struct lowered_block {
    VEC(item) items;
    live_inout inout[MAX_BASES];
    uint32_t ninout;
    bool params, grads; /* it uses those of its own block */
    uint64_t frame;     /* bytes of the call's temporaries */
} lowered_block;

/* Lower `block` in the phases of `phases` (bits 1 << PHASE_...). `first`: sums are written, not
 * accumulated. Free *out with plan_lowered_free(), also after a failure. */
weft_status plan_lower_block(builder *b, uint32_t block, uint32_t phases, bool first,
                             const char *name, lowered_block *out);
void plan_lowered_free(lowered_block *r);

#endif
