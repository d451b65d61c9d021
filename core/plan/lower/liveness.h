/* plan/lower/liveness.h: which tensors share a place, what a block saves, what is live across
 * blocks.
 *
 * Computed once a graph, before its blocks are lowered. */
#ifndef PLAN_LOWER_LIVENESS_H
#define PLAN_LOWER_LIVENESS_H

#include "graph/graph.h"

struct builder;

/* saved_at[t] of a tensor that is not in its block's saved slot */
#define LIVE_FRAME UINT64_MAX       /* it dies with the call */
#define LIVE_INOUT (UINT64_MAX - 1) /* live-in or live-out: another block touches it */

typedef struct liveness {
    VEC(uint64_t) saved; /* [block] bytes of its saved slot */
    uint64_t *saved_at;  /* [tensor] offset in its block's slot, or LIVE_... */
    weft_tensor *root;   /* [tensor] the tensor whose place it shares */
    bool *first_sum;     /* [node] writes a sum for the first time in a micro-batch */
    uint32_t *reads;     /* [tensor] how often its elements are an operand of a node */
    weft_tensor result;  /* still there when the list has ended; 0: none */
} liveness;

/* Fill b->live for b->g. */
void plan_liveness_find(struct builder *b);
void plan_liveness_free(liveness *x);

weft_tensor plan_root_of(const struct builder *b, weft_tensor t); /* whose place it shares */

bool plan_node_shape_only(const node *n,
                          uint32_t k); /* of input k it reads the shape and no number */

/* Are the node's outputs added to? `first`: in the first micro-batch. */
bool plan_node_adds(const struct builder *b, uint32_t at, bool first);

/* The operand that stands for a tensor in an instruction: dtype and the sizes on one rank. */
weft_operand plan_lower_operand(const graph *g, weft_tensor t);

#endif
