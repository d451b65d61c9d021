/* plan/layout/regions.h: where the regions of the arena begin.
 *
 * Order in the arena: scalars, inputs, compute copy, fp32 masters, states, gradients, then the zone
 * of activations. Which states exist is known only after the update rule has been asked; so the
 * regions are laid out in two passes. */
#ifndef PLAN_LAYOUT_REGIONS_H
#define PLAN_LAYOUT_REGIONS_H

#include "plan/layout/layout.h"

struct builder;

/* The arena offsets that the bases BASE_PARAM and BASE_GRAD of each flat block stand for. At first
 * those of the regions. The zero schedule points a block's base to a whole copy while there is
 * one; a work that starts then reads it here. Owned by the plan's pool. */
typedef struct block_bases {
    uint64_t *params, *grads; /* [flat block] */
} block_bases;

/* Inputs of `passes` micro-batches, compute copy and masters. WEFT_USAGE: an input that nothing
 * fills. */
weft_status plan_regions_params(struct builder *b, uint64_t passes);

/* States and, where the plan trains, gradients; the zone of activations begins behind them. */
weft_status plan_regions_state(struct builder *b, bool train);

/* Put workspace and scratch behind the zone of activations, and add up the bytes. */
void plan_regions_finish(struct builder *b);

/* What each rank saves: the pieces of the plan, and the list "save". */
weft_status plan_pieces(struct builder *b);

#endif
