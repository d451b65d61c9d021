/* plan/scalar.h: the plan's scalars: fp32 numbers at the start of the arena, found by name.
 *
 * The core writes some of them (learning rate, norm, gate, loss scale, ...); plugins may add more.
 * Each has a slot of SCALAR_BYTES, so that no two share a cache line. */
#ifndef PLAN_SCALAR_H
#define PLAN_SCALAR_H

#include "plan/plan.h"

#define MAX_SCALARS 64u
#define SCALAR_BYTES 64u /* of each, in the arena */

/* Arena offset of the scalar; a name that is new gets the next slot and begins with `start`. */
uint64_t plan_scalar_offset(plan *p, const char *name, double start);

/* Say whether checkpoints have the scalar: SCALAR_... of plan.h. */
void plan_scalar_save(plan *p, const char *name, uint32_t saved);

/* Is the node an assignment to a scalar? */
bool plan_scalar_assigned(const graph *g, const graph_node *n);

/* WEFT_USAGE if the core writes the scalar that the node assigns; `who` names the plugin. */
weft_status plan_scalar_check_target(const graph *g, const graph_node *n, const char *who);

#endif
