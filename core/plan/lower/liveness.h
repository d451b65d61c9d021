/* plan/lower/liveness.h: which tensors share memory, which a block saves, live-ins and live-outs.
 *
 * Computed once per graph, before its blocks are lowered. A saved slot is one piece: it is taken at
 * the block's forward and given back whole after its backward, once a micro-batch in flight. */
#ifndef PLAN_LOWER_LIVENESS_H
#define PLAN_LOWER_LIVENESS_H

#include "graph/graph.h"

struct plan_builder;

/* saved_at[t] of a tensor that is not in its block's saved slot */
#define LIVE_FRAME UINT64_MAX       /* temporary of the call */
#define LIVE_INOUT (UINT64_MAX - 1) /* live-in or live-out: another block uses it */

typedef struct plan_liveness {
    uint64_t *saved;    /* [block] bytes of its saved slot */
    uint64_t *saved_at; /* [tensor] offset in its block's slot, or LIVE_... */
    weft_tensor *root;  /* [tensor] the tensor whose memory it shares */
    bool *first_sum;    /* [node] first write of a sum in a micro-batch */
    uint32_t *reads;    /* [tensor] how many node operands read its elements */
    weft_tensor result; /* still live at the end of the list; 0: none */
} plan_liveness;

/* Fill b->live for b->g, whose pool has the memory. */
void plan_liveness_find(struct plan_builder *b);

weft_tensor plan_root_of(const struct plan_builder *b, weft_tensor t); /* owner of its memory */

/* Are the node's outputs accumulated into? `first`: in the first micro-batch. */
bool plan_node_adds(const struct plan_builder *b, uint32_t at, bool first);

/* The operand of a tensor in an instruction: dtype and the sizes on one rank. */
weft_operand plan_lower_operand(const graph *g, weft_tensor t);

#endif
