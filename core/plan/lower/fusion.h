/* plan/lower/fusion.h: op fusion: which nodes become one instruction. */
#ifndef PLAN_LOWER_FUSION_H
#define PLAN_LOWER_FUSION_H

#include "plan/builder.h"

#define FUSE_MAX 4u
#define FUSE_ATTRS 16u

typedef struct plan_unit {      /* one node, or several that the device runs as one */
    uint32_t n, node[FUSE_MAX]; /* of the graph, in order */
    const char *id;             /* of the single node, or of the fused op */
    uint32_t nin, nout;
    weft_tensor in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS]; /* out 0: unused */
} plan_unit;
typedef VEC(plan_unit) plan_unit_list;

/* Fuse `nodes` of one block, in order; returns the units in execution order, in the pool. */
weft_status plan_fuse_nodes(const plan_builder *b, const uint32_t *nodes, uint32_t n, bool first,
                            pool *memory, plan_unit_list *out);

/* The call of its op; false: it has too many attributes for a call, or one of them twice. */
typedef struct plan_unit_call {
    weft_operand io[2 * WEFT_MAX_OPERANDS];
    weft_attr attrs[FUSE_ATTRS];
    weft_opspec op; /* into the above */
} plan_unit_call;
bool plan_unit_spec(const plan_builder *b, const plan_unit *u, bool adds, plan_unit_call *out);

#endif
