/* graph/cached.h: a model's graph for sequences that grow: generation of text.
 *
 * A family builds the logits of a run of rows as if they were a sequence of their own. Here that
 * graph becomes one whose rows continue a sequence: keys and values go into caches, which are
 * tensors of kind WEFT_T_STATE, and attention reads them from there. So the work of a token is that
 * of one row and does not grow with the rows before it, but for the attention. Families know
 * nothing of this.
 *
 *   attention          two cache.write and attention.cached (ops/attention.c)
 *   rope               the same with the positions of the rows as an operand
 *   "positions"        is what the runner fills in, as before
 *
 * Every other op must compute each row from that row alone. Whether it does is asked of the op
 * itself: it does if it may be split among as many ranks as there are rows. So ops of plugins are
 * judged like the core's own. All functions: [plan]. */
#ifndef GRAPH_CACHED_H
#define GRAPH_CACHED_H

#include "graph/graph.h"

/* WEFT_UNSUPPORTED, with the op and the reason, unless the graph can be made to continue a
 * sequence. `rows` of its one sequence: at least 2, or nothing is told apart. Before propagation;
 * changes no placement. */
weft_status graph_cached_check(graph *g, int64_t rows);

/* Puts caches of `max` rows into the graph, whose rows continue one sequence. After propagation:
 * a cache is split along its heads as the keys are. Adds the input "positions" where the model has
 * none. Caches are named "cache.N.k" and "cache.N.v", N the number of the attention. */
weft_status graph_cached_make(graph *g, int64_t max);

/* Drops every op on which no cache depends: what is left fills the caches and makes no logits. */
void graph_cached_prune(graph *g);

#endif
