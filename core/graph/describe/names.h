/* graph/describe/names.h: the names of axes, inputs, scalars, blocks and parameters that plugins
 * may rely on, with their meaning. They are part of the ABI. */
#ifndef GRAPH_DESCRIBE_NAMES_H
#define GRAPH_DESCRIBE_NAMES_H

typedef struct graph_name {
    const char *name, *meaning; /* the last entry has no name */
} graph_name;

/* Axes of tensors, inputs, scalars of weft/graph.h, scalars that the core keeps for itself, blocks,
 * what weft_view.op() calls nodes that compute nothing, and ops that only devices see. */
extern const graph_name graph_names_axes[], graph_names_inputs[], graph_names_scalars[],
    graph_names_reserved[], graph_names_blocks[], graph_names_nodes[], graph_names_device[];

/* The meaning of `name` in one of the lists; NULL: it is not there. [any] */
const char *graph_names_meaning(const graph_name *list, const char *name);

#endif
