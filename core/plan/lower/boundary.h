/* plan/lower/boundary.h: activations and gradients sent between pipeline stages. */
#ifndef PLAN_LOWER_BOUNDARY_H
#define PLAN_LOWER_BOUNDARY_H

#include "plan/lower/walk.h"

/* Find the tensors that this stage sends and receives. Without stages there are none. */
weft_status plan_boundary_prepare(plan_list_builder *w);
weft_status plan_boundary_before(plan_list_builder *w,
                                 uint32_t at); /* wait for what work `at` reads */
weft_status plan_boundary_after(plan_list_builder *w,
                                uint32_t at);    /* start sending what it produced */
void plan_boundary_finish(plan_list_builder *w); /* wait for all sends */
void plan_boundary_free(plan_list_builder *w);

#endif
