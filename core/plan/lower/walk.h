/* plan/lower/walk.h: a list of forward and backward work under construction.
 *
 * A pass of a block is the block in one direction for one micro-batch. micro_batches.c creates the
 * builder of the list, orders the passes (`works`) and visits them; stage boundary, zero schedule
 * and gradient sums add their entries before and after each. */
#ifndef PLAN_LOWER_WALK_H
#define PLAN_LOWER_WALK_H

#include "plan/lower/lower.h"

typedef struct plan_block_pass {
    uint32_t block, micro_batch;
    bool backward;
    bool first;    /* of this block in this direction: sums are written, not accumulated */
    uint32_t cell; /* same for all works of one (chunk, micro-batch, direction) */
} plan_block_pass;

typedef struct plan_list_builder {
    plan_builder *b;
    plan_list *l;
    pool memory; /* of the arrays below */
    uint32_t micro_batches;
    bool train;
    plan_lowered_block *lowered; /* [block][backward][first] */
    plan_block_pass *works;
    uint32_t nworks;
    uint32_t *last_use;   /* [tensor][micro-batch] 1 + work */
    uint32_t *grads_done; /* [flat block] 1 + the last work that adds to its gradients */
    uint64_t *place;      /* [tensor][micro-batch] 1 + offset in the zone */
    uint8_t *held;  /* [tensor][micro-batch] sends that still read it; the last wait frees it */
    uint64_t *slot; /* [block][micro-batch] offset of the saved slot in the zone */
    struct boundary *boundary;
    struct zero_walk *shard;
} plan_list_builder;

static inline plan_lowered_block *plan_walk_lowered(const plan_list_builder *w,
                                                    const plan_block_pass *x)
{
    return &w->lowered[(x->block * 2 + x->backward) * 2 + x->first];
}

/* Append the forward (and, if `train`, backward) work of all micro-batches to the list. */
weft_status plan_micro_batches(plan_builder *b, plan_list *l, bool train, uint32_t micro_batches);

/* --- boundary.c: activations and gradients sent between pipeline stages --- */

/* Find the tensors that this stage sends and receives. Without stages there are none. */
weft_status plan_boundary_prepare(plan_list_builder *w);
weft_status plan_boundary_before(plan_list_builder *w, uint32_t at); /* wait for what it reads */
weft_status plan_boundary_after(plan_list_builder *w, uint32_t at);  /* start sending its results */
void plan_boundary_finish(plan_list_builder *w);                     /* wait for all sends */
void plan_boundary_free(plan_list_builder *w);

/* --- zero_schedule.c: when sharded (ZeRO) parameters and gradients are gathered --- */

weft_status plan_zero_begin(plan_list_builder *w);
weft_status plan_zero_before(plan_list_builder *w, uint32_t at); /* gather what it reads, adds to */
weft_status plan_zero_after(plan_list_builder *w, uint32_t at);  /* free what is not needed now */
weft_status plan_zero_finish(plan_list_builder *w);
void plan_zero_free(plan_list_builder *w);

/* After the update of a group: gather its parameters, unless they stay sharded. */
weft_status plan_zero_updated(plan_builder *b, plan_list *l, uint32_t group);
void plan_zero_gathered(plan_builder *b, plan_list *l); /* wait for all of these gathers */

#endif
