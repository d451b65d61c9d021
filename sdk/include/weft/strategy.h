/* weft/strategy.h: parallel strategies as data, interface "weft.strategy/1".
 *
 * A strategy never sees a running job. It is called while planning, once a phase, reads the graph
 * and the mesh, and emits edits; the core applies them, derives the backward pass and all
 * communication, checks that no rank's list hangs, and runs the result. Edits refer to the whole
 * job in mesh coordinates, never of "my rank". The call must be a pure function of its arguments:
 * every rank plans for itself, and digests of the plans are compared before step 1. A graph is
 * planned more than once (training, evaluation, each stage): expect each phase again.
 *
 * A tensor may be split over several mesh axes: the outermost cuts first, so that data split over
 * "dp" and then within it over "cp" lies in order. The strategy that the user names first is the
 * innermost: its neighbours are the closest ranks.
 *
 * Phases, in order; each sees what the phases before it have done:
 *   WEFT_PHASE_SPLIT   split, replace, group
 *   WEFT_PHASE_STAGE   stage, order
 *   WEFT_PHASE_SYNC    sync, shard, periodic_list, update_every; sizes are now those of one rank
 *   WEFT_PHASE_MEMORY  activations, weight_versions
 * Edits that contradict each other are refused, naming both plugins. An edit outside its phase is
 * WEFT_USAGE. An edit that this host cannot apply is WEFT_UNSUPPORTED: pass it on. */
#ifndef WEFT_STRATEGY_H
#define WEFT_STRATEGY_H

#include <weft/graph.h>
#include <weft/op.h>
#include <weft/plugin.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_PHASE_SPLIT 1u
#define WEFT_PHASE_STAGE 2u
#define WEFT_PHASE_SYNC 3u
#define WEFT_PHASE_MEMORY 4u

/* A mesh axis that a strategy brings, as data: the host declares the INI key `[parallel] size_key`
 * for it (a number, or auto: what the other axes leave). One flag says what ranks along it share:
 *
 *   WEFT_AXIS_BATCH     the batch: `[train] microbatch` sequences each
 *   WEFT_AXIS_SEQUENCE  sequences, of which each has a part; named before axes of the batch
 *   WEFT_AXIS_MODEL     the model: all have the same inputs
 *
 * The inputs have to be split so. 0: BATCH or MODEL; the host plans once more to find out. */
#define WEFT_AXIS_SEQUENCE 1u
#define WEFT_AXIS_BATCH 2u
#define WEFT_AXIS_MODEL 4u
typedef struct weft_mesh_axis {
    uint32_t struct_size, flags; /* WEFT_AXIS_... */
    const char *name, *size_key, *help;
} weft_mesh_axis;
WEFT_FREEZE(weft_mesh_axis, help, 32);

/* One cell of a schedule: chunk `chunk` of the model at this stage works on micro-batch `pass`. A
 * cell's input must have been made before it, here or at another stage: the plan runs the orders of
 * all stages against each other and refuses those that do not end. A backward is one cell of
 * WEFT_WORK_BACKWARD, or a B and, any time later, its W. Passed in arrays: never grows. */
#define WEFT_WORK_FORWARD 1u
#define WEFT_WORK_BACKWARD 2u        /* inputs and parameters */
#define WEFT_WORK_BACKWARD_INPUTS 3u /* B alone; refused in this version */
#define WEFT_WORK_BACKWARD_PARAMS 4u /* W alone, after its B */
typedef struct weft_work {
    uint32_t chunk, micro_batch, phase;
    uint32_t flags;
} weft_work;
WEFT_FREEZE(weft_work, flags, 16);

/* What the view says of a tensor. Activations have names that begin with the id of the op that
 * makes them, so "attention#*.0" is the first output of every attention; the number is the op's in
 * the whole graph. */
typedef struct weft_tensor_info {
    uint32_t struct_size, flags; /* flags: WEFT_PARAM_... of a parameter */
    const char *name, *role;     /* role: weft_param_args.role, or NULL */
    uint32_t kind;               /* WEFT_T_... */
    uint32_t block;              /* where it was built */
    weft_shape shape;
} weft_tensor_info;
WEFT_FREEZE(weft_tensor_info, shape, 176);

/* --- The view: what a strategy reads ---
 *
 * Handles run from 1 to tensors(), blocks from 0 to blocks() - 1, ops from 0 to ops() - 1 in the
 * order in which they were built. Table, strings and arrays live until the edit() call returns;
 * handles are those of the builder that a weft_emit gets. An unknown number gives WEFT_USAGE, NULL
 * or 0. All [plan]. */
typedef struct weft_view {
    uint32_t struct_size, flags;
    void *ctx;
    uint32_t (*mesh)(void *ctx, const char *mesh_axis); /* its size; 0: no such axis in this job */
    uint32_t (*micro_batches)(void *ctx);               /* of one step */

    /* `out` is zeroed by the caller, with its struct_size. A tensor that was replaced keeps its
     * name. */
    uint32_t (*tensors)(void *ctx);
    weft_status (*tensor)(void *ctx, weft_tensor t, weft_tensor_info *out);

    /* After the phases before this one: in WEFT_PHASE_SPLIT nothing has been propagated yet. */
    weft_status (*place)(void *ctx, weft_tensor t, const char *mesh_axis, weft_place *out);
    uint32_t (*blocks)(void *ctx);
    const char *(*block)(void *ctx, uint32_t i);
    double (*block_flops)(void *ctx, uint32_t i);    /* forward, a micro-batch */
    uint64_t (*block_params)(void *ctx, uint32_t i); /* elements */
    uint32_t (*ops)(void *ctx);

    /* An op's id and operands: how a strategy finds what it replaces, and the names of what it
     * splits. Communication and assignments are ops too, without attributes. The caller zeroes
     * *call and sets its struct_size. */
    weft_status (*op)(void *ctx, uint32_t op, const char **id, weft_opcall *call);
} weft_view;
WEFT_FREEZE(weft_view, op, 104);

/* When a gradient is summed. */
#define WEFT_SYNC_LAST 1u  /* once, after its last contribution in the step */
#define WEFT_SYNC_EVERY 2u /* after every micro-batch */
#define WEFT_SYNC_NEVER 3u /* not at all: needs a periodic_list() or changes_results() */

/* What edits.shard() cuts. */
#define WEFT_SHARD_STATE 1u
#define WEFT_SHARD_GRADS 2u
#define WEFT_SHARD_PARAMS 3u

/* How an activation that the backward pass needs is kept (edits.activations). */
#define WEFT_ACTIVATION_WHOLE 1u
#define WEFT_ACTIVATION_SPLIT 2u /* a part a coordinate; refused in this version */
#define WEFT_ACTIVATION_RECOMPUTE 3u

/* Writes graph for an edit. Called before the edit returns (once, or once for each of several
 * graphs that are alike), so `user` may lie on the caller's stack. A failure is the edit's. [plan]
 */
typedef weft_status (*weft_emit)(void *user, const weft_builder *b);

/* --- What it emits ---
 *
 * Names are globs with '*', alternatives separated by '|'. For tensors and parameters "@ROLE" is an
 * alternative, too: all whose role matches (weft_param_args.role), as "@attention.*". "@input" are
 * all inputs but scalars, whatever the data calls them: strategies that split the batch use it.
 * Since 0.10 an alternative that begins with '!' takes away what the rest of it matches, in any
 * order: "*|!@norm*|!embed.*" are all but norms and embeddings, and so is "!@norm*|!embed.*". An
 * edit over a mesh axis of size 1 is valid and does nothing. Any status but WEFT_OK ends the
 * planning: pass it on. No edit knows a flag yet. All [plan]. */
typedef struct weft_edits {
    uint32_t struct_size, flags;
    void *ctx;

    /* Split the tensors (parameters, inputs, activations) along the named tensor axis, into equal
     * parts; at least one must match, and each that matches must have the axis: where tensors of
     * one role have different axes, as biases have, choose them by view->tensors(). Other
     * placements are propagated: an activation that is a partial sum and has a split edit is
     * reduce-scattered (sequence parallelism is this edit on the sums); one that is split and
     * needed whole is all-gathered. */
    weft_status (*split)(void *ctx, const char *tensors, const char *axis, const char *mesh_axis,
                         uint32_t flags);

    /* Replace op number `op` by the ops that `emit` builds. They read its inputs, by their handles,
     * and assign() names the tensor that replaces each of its outputs. Their gradient is derived
     * like any other. Handles and op numbers read before stay valid. Ops whose outputs only
     * replaced ops have read are not run, and parameters that nothing reads any more are removed:
     * of such a tensor the view says kind 0 from the next phase on. */
    weft_status (*replace)(void *ctx, uint32_t op, uint32_t flags, weft_emit emit, void *user);

    /* A named channel over n coordinates of one mesh axis, ascending: one at each position on the
     * other axes. Its name may then stand where sync() and the builder's comm() ask for a mesh axis
     * (a tied embedding: {first stage, last stage} of "pp"). */
    weft_status (*group)(void *ctx, const char *name, const char *mesh_axis, const uint32_t *coords,
                         uint32_t n, uint32_t flags);

    /* Assign the blocks that match to pipeline stage `stage` of the mesh axis, as its chunk number
     * `chunk`. Every block needs a stage once any has one; data runs through chunk 0 of the stages,
     * then chunk 1. Exact names distinguish "block.1" from "block.10". */
    weft_status (*stage)(void *ctx, const char *blocks, const char *mesh_axis, uint32_t stage,
                         uint32_t chunk, uint32_t flags);

    /* The schedule of coordinate `stage`. Every (chunk, micro-batch) exactly once a phase. */
    weft_status (*order)(void *ctx, const char *mesh_axis, uint32_t stage, const weft_work *work,
                         uint32_t n, uint32_t flags);

    /* Sum the gradients of the parameters that match over the mesh axis, in buckets of at most
     * `bucket_bytes` (0: what the job's [train] bucket_mb says); `when` is WEFT_SYNC_.... Of those
     * that match, the ones that are no partial sum over the axis (split experts) are left alone, so
     * "*" is safe. A gradient that is partial and never synced is an error. */
    weft_status (*sync)(void *ctx, const char *params, const char *mesh_axis, uint32_t when,
                        uint64_t bucket_bytes, uint32_t flags);

    /* Shard state, gradients or parameters over the mesh axis, cut at the rule's units. `ahead`:
     * how many blocks a gather runs ahead of use (parameters). */
    weft_status (*shard)(void *ctx, uint32_t what, const char *params, const char *mesh_axis,
                         uint32_t ahead, uint32_t flags);

    /* A separate list that runs after every `every`-th step, on every rank: what `emit` writes over
     * parameters (the fp32 masters), states and scalars. States are those of lists: a list reads
     * neither gradients nor the states of the rule. List names are global to the job: prefix yours.
     * Where gradients are never summed over an axis (WEFT_SYNC_NEVER) replicas diverge: a gradient
     * is 1 / n of the mean over the coordinate's own tokens, and a parameter counts as a partial
     * sum, which a list may complete, and which is completed before an op that also reads what is
     * whole: add(comm(p), p) is twice the sum. A state of it is one tensor for all coordinates. */
    weft_status (*periodic_list)(void *ctx, const char *name, uint32_t every, uint32_t flags,
                                 weft_emit emit, void *user);

    /* How activations that backward needs are kept; at least one must match. mesh_axis for
     * WEFT_ACTIVATION_SPLIT, else NULL. Tensors that other blocks read (live-out), and all of a
     * block that adds to the loss, are always kept whole. Takes precedence over [train]
     * recompute. */
    weft_status (*activations)(void *ctx, const char *tensors, uint32_t how, const char *mesh_axis,
                               uint32_t flags);

    /* Keep `versions` versions of the parameters that match (asynchronous schedules): a backward
     * uses the one that its forward used. Report it with changes_results(). */
    weft_status (*weight_versions)(void *ctx, const char *params, uint32_t versions,
                                   uint32_t flags);

    /* Declare, in one line for the user, how this plugin makes results depend on the layout. */
    weft_status (*changes_results)(void *ctx, const char *text, uint32_t flags);

    /* Since 0.10. Update the parameters that match in steps from + every, from + 2 every, ... only,
     * counted from 1 (`every` 4: steps 4, 8; 1 with `from` 100: not before step 101). In other
     * steps parameter and states stay, the gradient is not summed over ranks, and neither norm nor
     * clipping knows it; the rule's `count` is the number of the parameter's own updates. With
     * WEFT_UPDATE_MEAN, and `from` 0, each coordinate adds up its gradients over the steps, and the
     * update gets their mean; else those of other steps are dropped. A parameter has one interval.
     * Emitted in WEFT_PHASE_SYNC. */
    weft_status (*update_every)(void *ctx, const char *params, uint32_t every, uint64_t from,
                                uint32_t flags);
} weft_edits;
WEFT_FREEZE(weft_edits, update_every, 112);

/* Flags of update_every(). */
#define WEFT_UPDATE_MEAN 1u

typedef struct weft_strategy {
    uint32_t struct_size, flags;

    /* NULL-ended; NULL: brings none. Such a strategy transforms the graph (an adapter beside a
     * weight, a frozen or a normalized one): it may emit replace(), activations() and any other
     * edit in a job of one rank, too, and users name it before those that split. */
    const weft_mesh_axis *const *axes;

    /* Called once a phase, in the order in which the user names the strategies. WEFT_OK, without an
     * edit, where there is nothing to do in a phase, in one that a later version adds, and with
     * axes of size 1. */
    weft_status (*edit)(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits); /* [plan] */

    /* Names of strategies, separated by commas, innermost first, that this one expands to: a list
     * that users need often. Its own edit() is then never called, and it brings no axes. OPT */
    const char *list;
} weft_strategy;
WEFT_FREEZE(weft_strategy, list, 32);

WEFT_EXTERN_C_END

#endif
