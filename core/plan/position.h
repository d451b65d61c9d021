/* plan/position.h: what the kernels of an op are told about where this rank's part lies.
 *
 * Ops with `first_input` get it as whole-number attributes beside their own (weft/op.h). All ranks
 * share one plan, so an attribute has the value of coordinate 0, and the plan says what each
 * coordinate adds to "first" (kernel.first). */
#ifndef PLAN_POSITION_H
#define PLAN_POSITION_H

#include "plan/plan.h"

#define POSITION_OWN 16u /* attributes of its own that an op with a position may have */
#define POSITION_ATTRS (POSITION_OWN + 3 + WEFT_MAX_AXES) /* first, seed, stream; whole.K */

/* Copies the node's attributes with those of its position to `attrs`, and what each coordinate of a
 * mesh axis adds to "first" to `begins`; returns their number, 0 if the node needs no position.
 *
 * `param` is the parameter that the node updates, or NULL. Parameters that share a graph draw
 * numbers of their own: the name of each is mixed into the attribute "stream". */
uint32_t plan_position(const plan *p, const graph *g, const graph_node *n, const char *param,
                       weft_attr attrs[POSITION_ATTRS], uint64_t begins[WEFT_MAX_MESH]);

#endif
