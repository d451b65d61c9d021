/* plan/optim/slices.h: the update of a sharded parameter: which tensors of its graph are slices. */
#ifndef PLAN_OPTIM_SLICES_H
#define PLAN_OPTIM_SLICES_H

#include "graph/graph.h"

/* Ids of the nodes without op that plan_slices_apply() adds beside communication; graph_to_list.c
 * writes them into the list. "own part": out is the coordinate's part of in, in the same memory
 * (the tensor's part_of); what is between the end of `in` and its room is set to 0. "real elements"
 * has no input: out is 1 for each element, and 0 from there to the end of its room. */
#define SLICES_OWN_PART "own part"
#define SLICES_REAL "real elements"

/* How the parameter is sharded: as a group of its own of `count` elements with padding, in `parts`
 * equal slices over the mesh axis. */
typedef struct plan_slices {
    uint32_t axis, parts;
    uint64_t count;
} plan_slices;

/* Rewrite the nodes of a rule's graph, whose placements over the other mesh axes are propagated.
 * sliced[t]: the tensor's memory has only the own slice: the parameter, its gradient and copy,
 * states with all of its axes. WEFT_INTERNAL if a slice is taken of what has another size. */
weft_status plan_slices_apply(graph *g, weft_tensor param, const plan_slices *how,
                              const bool *sliced);

#endif
