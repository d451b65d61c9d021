/* plan/optim/rule.h: the update rule as a graph, and the state of the files that lower it. */
#ifndef PLAN_OPTIM_RULE_H
#define PLAN_OPTIM_RULE_H

#include "plan/optim/graph_to_list.h"

struct plan_rule {
    struct update_state *update;       /* elementwise rules: update.c */
    struct each_state *each;           /* rules of whole parameters: update_each.c */
    struct rule_scalars *rule_scalars; /* what the rule assigns to scalars; NULL: no graph yet */
};

/* Region of a tensor of the rule. */
#define RULE_SCALAR 0u
#define RULE_PARAM 1u
#define RULE_GRAD 2u
#define RULE_COPY 3u
#define RULE_STATE 4u /* + index into flat.states */

bool plan_rule_by_element(const plan_builder *b);

/* What an update is built with: two parameters with the same may share it. The numbers are those of
 * plan_flat_param. */
typedef struct plan_rule_key {
    const char *role; /* NULL: none, or several parameters */
    uint32_t flags, interval, group;
} plan_rule_key;

/* Kinds by interval and group are numbered; how many there are, and the number of one. */
uint32_t plan_rule_kinds(const plan_builder *b);
uint32_t plan_rule_kind(const plan_builder *b, uint32_t interval, uint32_t group);

/* The rule's update of a parameter as a graph. */
typedef struct plan_rule_update {
    graph g;
    weft_tensor param, grad;
    weft_tensor copy; /* the compute copy; 0: the parameter is computed with */
    weft_tensor gate; /* the scalar that is 0 in a skipped step */
} plan_rule_update;

/* Build the update of parameters of this shape, placed like this (NULL: whole). Free out->g, also
 * after a failure. WEFT_USAGE or WEFT_UNSUPPORTED names the rule. */
weft_status plan_rule_graph(plan_builder *b, const plan_rule_key *of, const weft_shape *shape,
                            const weft_place *place, plan_rule_update *out);

/* The suffix of a state "p.SUFFIX" of the rule. */
const char *plan_rule_suffix(const graph_tensor *state);

/* The region of the parameter, its gradient or its copy; RULE_SCALAR: the tensor is none of them.
 */
uint32_t plan_rule_source(const plan_rule_update *u, weft_tensor t);

/* Address of elements from `first` on in the region RULE_...; slice_of: 1 + the group whose own
 * slice is meant, 0: unsharded. */
plan_tensor_place plan_rule_place(const plan_builder *b, uint32_t from, uint64_t first,
                                  uint32_t slice_of);

/* --- rule_scalars.c: scalars that a rule assigns, once per step --- */

/* Take the assignments to scalars out of a graph of the rule; all graphs must assign the same.
 * `some`: of parameters that are not updated in every step; WEFT_UNSUPPORTED if there are any. */
weft_status plan_rule_scalars_take(plan_builder *b, graph *g, weft_tensor gate,
                                   const plan_interval *some);

/* Emit them after all updates. */
weft_status plan_rule_scalars_assign(plan_builder *b, plan_list *l);

#endif
