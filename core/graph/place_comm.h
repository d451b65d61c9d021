/* graph/place_comm.h: where the output of communication in a graph lies. Private to core/graph. */
#ifndef GRAPH_PLACE_COMM_H
#define GRAPH_PLACE_COMM_H

#include "graph/graph.h"

/* Places the output of a communication node, and sets which axis an all-to-all joins. WEFT_USAGE:
 * the input does not lie as the communication needs it. [plan] */
weft_status graph_place_comm(graph *g, graph_node *n);

/* WEFT_USAGE unless mesh axis `a` divides what a rank has of axis `axis` of `t`. */
weft_status graph_check_parts(const graph *g, weft_tensor t, uint32_t axis, uint32_t a);
weft_status graph_indivisible(const graph *g, const graph_tensor *t, const weft_axis *axis,
                              uint32_t a);

/* Notes that communication over mesh axis `a` cuts or joins `t` along another axis than its first.
 */
void graph_note_along(graph *g, graph_tensor *t, uint32_t a);

#endif
