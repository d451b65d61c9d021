/* plan/optim/rule.h: the update rule as a graph, for whoever turns it into instructions. */
#ifndef PLAN_OPTIM_RULE_H
#define PLAN_OPTIM_RULE_H

#include "plan/builder.h"

struct rule_state {
    struct update_state *update;       /* rules of one element: update.c */
    struct each_state *each;           /* rules of a larger unit: update_each.c */
    struct rule_scalars *rule_scalars; /* what the rule assigns to scalars; NULL: no graph yet */
};

/* Where a tensor of the rule is. */
#define RULE_SCALAR 0u
#define RULE_PARAM 1u
#define RULE_GRAD 2u
#define RULE_COPY 3u
#define RULE_STATE 4u /* + index into flat.states */

bool plan_rule_by_element(const builder *b);

/* Ask the rule for its update of a parameter; the nodes are added to `g`. *gate is the scalar that
 * says whether the step counts. WEFT_USAGE or WEFT_UNSUPPORTED names the rule. */
weft_status plan_rule_graph(builder *b, graph *g, weft_tensor param, weft_tensor grad,
                            weft_tensor copy, uint32_t flags, weft_tensor *gate);

/* Index of the state "p.SUFFIX"; it is added if it is new. */
uint32_t plan_rule_state(builder *b, const char *full);

/* Where elements from `first` on are in the region of RULE_...; slice_of: 1 + the group of which
 * the own slice is meant, 0: whole. */
flat_place_in plan_rule_region(const builder *b, uint32_t from, uint64_t first, uint32_t slice_of,
                               uint32_t *dtype);

/* --- rule_scalars.c: scalars that a rule assigns, once a step --- */

/* Take the assignments to scalars out of a graph of the rule; all graphs have to agree. */
weft_status plan_rule_scalars_take(builder *b, graph *g, weft_tensor gate);

/* Emit them, behind all updates. */
weft_status plan_rule_scalars_assign(builder *b, list *l);

#endif
