/* plan/collective.h: channels and collectives of a plan.
 *
 * A collective queries the schedule of its channel for its requirements: the algorithm, scratch
 * memory, memory of the error-feedback residual, and the bytes that a rank sends. Equal collectives
 * are queried once. */
#ifndef PLAN_COLLECTIVE_H
#define PLAN_COLLECTIVE_H

#include "plan/builder.h"

/* The number of the channel "AXIS.what" over all coordinates of a mesh axis; the channel is added
 * if the plan has none of that name. */
uint32_t plan_channel_number(plan *p, const char *what, uint32_t mesh_axis);

/* The same for a full name, over `n` coordinates; n 0: over all. `coords` is copied. */
uint32_t plan_channel_some(plan *p, const char *name, uint32_t mesh_axis, const uint32_t *coords,
                           uint32_t n);

/* Does the channel carry data through host memory? Then scratch and residuals are there too. */
bool plan_channel_in_host(const plan *p, uint32_t number);

/* Add a collective like `like` to the plan; *out is its number. Its scratch is taken from the zone
 * of its channel; the caller returns it by plan_collective_give(). */
weft_status plan_collective_add(plan_builder *b, const plan_collective *like, uint32_t *out);

/* Return the scratch of a collective that has been waited for. */
void plan_collective_give(plan_builder *b, uint32_t number);

#endif
