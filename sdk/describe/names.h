/* describe/names.h: the names of axes, inputs, scalars, blocks and parameters that plugins
 * may rely on, with their meaning. They are part of the ABI. */
#ifndef DESCRIBE_NAMES_H
#define DESCRIBE_NAMES_H

typedef struct describe_name {
    const char *name, *meaning; /* the last entry has no name */
} describe_name;

/* Axes of tensors, inputs, scalars of weft/graph.h, scalars that the core keeps for itself, blocks,
 * what weft_view.op() calls nodes that compute nothing, and ops that only devices see. */
extern const describe_name describe_names_axes[], describe_names_inputs[], describe_names_scalars[],
    describe_names_reserved[], describe_names_blocks[], describe_names_nodes[],
    describe_names_device[];

#endif
