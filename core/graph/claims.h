/* graph/claims.h: what the shard() of a plugin's op says of its outputs, held against what can be.
 *
 * A plugin says where the elements of an output are, and nothing later would notice that it cannot
 * be so: kernels would compute on sizes that do not fit. Private to core/graph. */
#ifndef GRAPH_CLAIMS_H
#define GRAPH_CLAIMS_H

#include "graph/graph.h"

/* Ask shard() of node `i` along mesh axis `a`, and check its answer.
 *
 * A split has to come out even, or to go on along an axis that an input is split along already
 * (whose padding is nought); a coordinate may hold an output alone only where it holds an input.
 *
 * shard() is told how many coordinates the mesh axis has, and not its name. Where several mesh axes
 * of the job have that many, an op that goes by the number takes one for the other: the answer must
 * then be the one that it gives for 1 coordinate. WEFT_USAGE says what to do. [plan] */
weft_status graph_check_placement(graph *g, uint32_t i, uint32_t a, const weft_opcall *call,
                                  const weft_place *in, weft_place *out);

#endif
