/* plan/model.h: the graph of the job's model family. */
#ifndef PLAN_MODEL_H
#define PLAN_MODEL_H

#include "graph/graph.h"
#include "resolve/spec.h"

/* Have the family build the forward graph of a micro-batch of `dp_size` ranks, and check what it
 * built: *result is the loss, averaged over the rows of `average` samples, or the logits. `want` is
 * WEFT_MODEL_.... *built is a digest of the parameters, 0 before the first graph: every graph of a
 * job has the same. A failure names the family. [plan] */
weft_status plan_model_build(graph *g, const spec *s, uint32_t dp_size, double average,
                             uint32_t want, uint64_t *built, weft_tensor *result);

#endif
