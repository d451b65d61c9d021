/* plan/layout/regions.h: offsets of the regions of the arena.
 *
 * Order in the arena: scalars, inputs, compute copy, fp32 masters, states, gradients, then the zone
 * of activations. The states are known only after the update rule has built its graph, so the
 * regions are placed in two passes. */
#ifndef PLAN_LAYOUT_REGIONS_H
#define PLAN_LAYOUT_REGIONS_H

#include "plan/layout/layout.h"

struct plan_builder;

/* Arena offsets of the bases BASE_PARAM and BASE_GRAD of each flat block, initially those of the
 * regions. The zero schedule points a block's base to a gathered copy while one exists; work that
 * starts then uses it. Owned by the plan's pool. */
typedef struct plan_block_bases {
    uint64_t *params, *grads; /* [flat block] */
} plan_block_bases;

/* Place the inputs of all micro-batches, compute copy and masters. WEFT_USAGE: an input that
 * nothing fills. */
weft_status plan_regions_params(struct plan_builder *b);

/* Place states and, in training, gradients; the zone of activations begins after them. */
weft_status plan_regions_state(struct plan_builder *b);

/* Place workspace and scratch after the zone of activations, and add up the bytes. */
void plan_regions_finish(struct plan_builder *b);

/* Build the plan's pieces and its save list. */
weft_status plan_pieces(struct plan_builder *b);

#endif
