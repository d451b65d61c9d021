/* plan/lower/boundary.h: activations and gradients that go from pipeline stage to pipeline stage.
 */
#ifndef PLAN_LOWER_BOUNDARY_H
#define PLAN_LOWER_BOUNDARY_H

#include "plan/lower/walk.h"

/* Find the tensors that this stage sends and receives. Without stages there are none. */
weft_status plan_boundary_prepare(walk *w);
weft_status plan_boundary_before(walk *w, uint32_t at); /* what work `at` needs has arrived */
weft_status plan_boundary_after(walk *w, uint32_t at);  /* what it made is being sent */
void plan_boundary_finish(walk *w);                     /* wait for all sends */
void plan_boundary_free(walk *w);

#endif
