/* plan/lower/boundary.h: activations and gradients sent between pipeline stages. */
#ifndef PLAN_LOWER_BOUNDARY_H
#define PLAN_LOWER_BOUNDARY_H

#include "plan/lower/walk.h"

/* Find the tensors that this stage sends and receives. Without stages there are none. */
weft_status plan_boundary_prepare(walk *w);
weft_status plan_boundary_before(walk *w, uint32_t at); /* wait for what work `at` reads */
weft_status plan_boundary_after(walk *w, uint32_t at);  /* start sending what it produced */
void plan_boundary_finish(walk *w);                     /* wait for all sends */
void plan_boundary_free(walk *w);

#endif
