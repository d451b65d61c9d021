/* graph/claims.h: validation of the output placements that a plugin op's shard() returns.
 *
 * No later pass would detect an impossible placement: kernels would run on mismatched sizes.
 * Private to core/graph. */
#ifndef GRAPH_CLAIMS_H
#define GRAPH_CLAIMS_H

#include "graph/graph.h"

/* Calls shard() of node `i` along mesh axis `a`, and checks its result.
 *
 * A split must divide evenly, or continue along an axis that an input is already split along (whose
 * padding is zero); a coordinate may hold an output alone only where it holds an input. WEFT_USAGE
 * says what is wrong. [plan] */
weft_status graph_check_placement(graph *g, uint32_t i, uint32_t a, const weft_opcall *call,
                                  const weft_place *in, weft_place *out);

#endif
