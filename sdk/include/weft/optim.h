/* weft/optim.h: update rules "weft.rule/1" and placements "weft.placement/1".
 *
 * A rule is an optimizer: it writes, with the graph builder, how one parameter changes from its
 * gradient and its state. It is independent of ranks, devices and sharding: a norm of a sharded
 * tensor becomes a partial sum that the core completes, and chains of elementwise ops are fused
 * into one pass over flat ranges of many parameters. A placement (ZeRO) says, by edits and for any
 * rule, which of state, gradients and parameters is sharded over the data-parallel mesh axis.
 *
 * The smallest rule is plugins/optim/sgd, installed in share/weft/samples.
 */
#ifndef WEFT_OPTIM_H
#define WEFT_OPTIM_H

#include <weft/graph.h>
#include <weft/plugin.h>
#include <weft/strategy.h>

WEFT_EXTERN_C_BEGIN

/* What an update sees. With WEFT_UNIT_ELEMENT the rule may use elementwise ops only, and may get a
 * flat range [elements] of many parameters instead of one parameter with its own axes; a rule that
 * reduces (a norm, a row sum), multiplies matrices or has states with other axes needs one of the
 * others, and sees each parameter with its axes. A placement shards parameters of any unit, at any
 * element: elementwise ops and sums of squares work on slices, and the core gathers a tensor before
 * any other op. */
#define WEFT_UNIT_ELEMENT 1u /* none: every element is updated independently */
#define WEFT_UNIT_TENSOR 2u  /* a parameter */
#define WEFT_UNIT_MATRIX 3u  /* the last two axes of a parameter */

/* One parameter to update. The gradient is already multiplied by the scalar "clip", which clips to
 * the global norm and removes the loss scale. All tensors are fp32 for the rule; in 16-bit jobs the
 * core rounds the compute copy in the same pass. */
typedef struct weft_update {
    uint32_t struct_size;
    uint32_t flags;          /* WEFT_PARAM_MATRIX: weight decay applies */
    const char *name;        /* of the parameter, or of a range: for messages only */
    weft_tensor param, grad; /* same shape */
    weft_tensor lr, count;   /* scalars: this step's learning rate; updates, this one included */
    const char *role;        /* weft_param_args.role; NULL: none, or a range of several */
} weft_update;
WEFT_FREEZE(weft_update, role, 40);

typedef struct weft_rule {
    uint32_t struct_size;
    uint32_t unit; /* WEFT_UNIT_... */

    /* Build the update: read param and grad, create states, assign to param and to each state
     * exactly once. Must build the same graph for parameters of equal shape, flags and
     * role. [plan] */
    weft_status (*update)(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u);
} weft_rule;
WEFT_FREEZE(weft_rule, update, 16);

typedef struct weft_placement_args {
    uint32_t struct_size, flags;
    const weft_view *view;
    const weft_edits *edits;
    const char *const *mesh_axes; /* NULL-ended: over which the job's data is split, outermost
                                     first */
    uint32_t unit;                /* the rule's */
    uint32_t reserved;
} weft_placement_args;
WEFT_FREEZE(weft_placement_args, reserved, 40);

typedef struct weft_placement {
    uint32_t struct_size, flags;

    /* Emit shard and sync edits, in WEFT_PHASE_SYNC, after all strategies. A sync edit emitted here
     * overrides the strategy's along that axis. The user sets the type in which gradients are
     * summed ([train] accumulate). [plan] */
    weft_status (*edit)(void *module, const weft_conf *conf, const weft_placement_args *args);
} weft_placement;
WEFT_FREEZE(weft_placement, edit, 16);

WEFT_EXTERN_C_END

#endif
