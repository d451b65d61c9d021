/* plan/lower/lower.h: lowers one block for a micro-batch to segments and communication between
 * them.
 *
 * Equal segments are stored once, so that a lowered block is valid for all micro-batches. */
#ifndef PLAN_LOWER_LOWER_H
#define PLAN_LOWER_LOWER_H

#include "plan/builder.h"

typedef struct plan_item {
    const graph_node *comm; /* communication between two segments; NULL: a segment */
    uint32_t segment;
    plan_ref in, out; /* of the communication */
} plan_item;

typedef struct plan_live_inout { /* the tensor of base BASE_FIRST + k */
    weft_tensor tensor;          /* 0: parameters or gradients of another flat block */
    uint32_t flat_block, grad;
} plan_live_inout;

typedef struct plan_lowered_block {
    VEC(plan_item) items;
    plan_live_inout inout[MAX_BASES];
    uint32_t ninout;
    bool params, grads; /* it uses those of its own block */
    uint64_t frame;     /* bytes of the call's temporaries */
} plan_lowered_block;

/* Lower `block` in the phases of `phases` (bits 1 << PHASE_...). `first`: sums are written, not
 * accumulated. The caller frees out->items, also after a failure. */
weft_status plan_lower_block(plan_builder *b, uint32_t block, uint32_t phases, bool first,
                             const char *name, plan_lowered_block *out);

#endif
