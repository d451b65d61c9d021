/* weft/graph.h: tensors with named axes, and the builder.
 *
 * The graph is logical: it describes the whole model, unsharded, in the whole job's sizes. One
 * builder serves all authors of graphs: the model families, the gradients of ops, a strategy's
 * replacements, and update rules. What a tensor looks like on a rank follows from placements, which
 * edits set (strategy.h) and the core propagates through the ops (op.h).
 *
 * Axes are matched by name. linear(x [tokens, embed], w [ffn, embed]) gives [tokens, ffn] because
 * `embed` is in both; if `tokens` is split over a mesh axis so is the result, and if `embed` is
 * split in both, the result is a partial sum. Give two axes of one tensor different names.
 *
 * Activations are [tokens, features...]; tokens is batch times sequence, flattened, so that a split
 * of whole sequences is contiguous.
 */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

typedef uint32_t weft_tensor; /* a handle of the builder that made it; 0 is none */

typedef struct weft_axis {
    const char *name; /* "tokens", "embed", "heads", "ffn", "vocab"; the host keeps a copy */
    int64_t size;     /* elements, at least 1 */
} weft_axis;

/* Element type and axes, slowest first; dense, row-major. dtype 0 asks for the job's compute type
 * (fp32, bf16 or fp16); a shape that the host hands out always has a real type. rank 0 is a scalar.
 * This struct is passed in arrays: it never grows. */
typedef struct weft_shape {
    uint32_t dtype, rank;
    uint32_t flags, reserved; /* 0: dense, row-major */
    weft_axis axes[WEFT_MAX_AXES];
} weft_shape;
WEFT_FREEZE(weft_shape, axes, 144);

/* What a tensor is for. */
#define WEFT_T_INPUT 1u      /* filled for each micro-batch: see builder.input */
#define WEFT_T_PARAM 2u      /* learned; fp32 master copy, and a compute copy for 16-bit types */
#define WEFT_T_ACTIVATION 3u /* made by an op in a pass */
#define WEFT_T_GRAD 4u       /* the sum of a parameter's gradient over the step */
#define WEFT_T_STATE 5u      /* an update rule's own, kept across steps and in checkpoints */
#define WEFT_T_SCALAR 6u     /* one fp32 in plan memory that ops read and write */

/* An attribute of an op, by key: a whole number, a real, or bytes. An op that needs a name (of an
 * axis) takes it as a key. An op reads one of the three and ignores the others; the host copies the
 * bytes, at most 4096, and they count in what makes two ops equal. Passed in arrays: never grows.
 */
typedef struct weft_attr {
    const char *key;
    int64_t i;
    double f;
    const void *data;
    uint32_t bytes, flags;
} weft_attr;
WEFT_FREEZE(weft_attr, flags, 40);

/* Initializers: const weft_attr attrs[] = {WEFT_ATTR_INT("causal", 1), WEFT_ATTR_REAL("eps",
 * 1e-5)};
 */
#define WEFT_ATTR_INT(key, value)                                                                  \
    {                                                                                              \
        key, value, 0, NULL, 0, 0                                                                  \
    }
#define WEFT_ATTR_REAL(key, value)                                                                 \
    {                                                                                              \
        key, 0, value, NULL, 0, 0                                                                  \
    }

/* An input to declare. The core fills it for each micro-batch by its name. */
typedef struct weft_input_args {
    uint32_t struct_size, flags;
    const char *name; /* "tokens" */
    const weft_shape *shape;
} weft_input_args;
WEFT_FREEZE(weft_input_args, shape, 24);

#define WEFT_PARAM_MATRIX 1u /* a matrix in the optimizer's eyes: weight decay applies */

/* The tensor may be zero-padded at the end where it is split along its first axis: the ops that
 * read it handle that, and what is derived from padding is zero. */
#define WEFT_PARAM_PAD 2u

/* A parameter to declare. Its name is the whole one, which checkpoints have, too: it is unique in
 * the graph, whatever its block. */
typedef struct weft_param_args {
    uint32_t struct_size, flags; /* WEFT_PARAM_... */
    const char *name;            /* "block.0.attn.qkv.w" */
    const weft_shape *shape;

    /* "zeros", "ones" or "normal:0.02" (mean 0, that deviation); element e depends on (seed,
     * name, e) alone. */
    const char *init;

    /* What the parameter is, whatever its family calls it: how strategies and rules find it.
     * "embedding", "position", "norm", "bias", "attention.qkv", "attention.query", "attention.key",
     * "attention.value", "attention.out", "ffn.up", "ffn.gate", "ffn.down", "head"; a third party's
     * own take a reverse domain. NULL: none. */
    const char *role;
} weft_param_args;
WEFT_FREEZE(weft_param_args, role, 40);

/* Communication to append: builder.comm(). */
typedef struct weft_comm_args {
    uint32_t struct_size, flags;
    uint32_t kind;         /* WEFT_ALL_REDUCE ... of coll.h but neither SEND, RECV nor BARRIER */
    uint32_t redop;        /* WEFT_SUM ... where the kind reduces */
    const char *mesh_axis; /* a mesh axis, or a group by its name (strategy.h) */
    const char *axis;      /* the tensor axis that the kind cuts or joins; NULL otherwise */
    uint32_t root;         /* a coordinate, or how far to SHIFT; else 0 */
    uint32_t reserved;
} weft_comm_args;
WEFT_FREEZE(weft_comm_args, reserved, 40);

/* Scalars with a meaning, by name (builder.scalar). All fp32, one element.
 *   "lr"       the learning rate of this step, schedule included
 *   "count"    updates done, this one included: 1 at the first; does not move on a skipped step
 *   "loss"     sum over the step of the loss a token, already divided by the step's tokens
 *   "scale"    loss scale: what the loss gradient is multiplied by; 1 without scaling
 *   "clip"     factor for gradients: clipping and the inverse of the loss scale in one
 *   "gate"     1, or 0 when the step is skipped: every assignment of an update obeys it
 *   "norm"     global gradient norm before clipping, each element counted once
 *   "step"     number of this step, 1 at the first; moves on a skipped step; exact up to 2^24 */

/* What builder.state() makes: a tensor beside a parameter, the same for every layout of the job.
 * Set struct_size, name and like; a member that is 0 or NULL takes its default.
 *
 *   name   a suffix ("m"): the checkpoint calls it "block.0.attn.qkv.w.m". A rule and lists must
 *          not use the same one.
 *   like   the parameter; in a list any parameter, in a rule the one that is updated
 *   dtype  WEFT_F32 (the default), WEFT_BF16, WEFT_F16, WEFT_U8 or WEFT_I32. Elementwise ops read
 *          16-bit floats as fp32, and assign() rounds to them. The other two are kept as they are.
 *   keep   names of the axes of `like` that the state has, separated by commas (a factored moment:
 *          "ffn"); "" is one number, NULL all axes
 *   shape  a shape of its own, instead of keep; its dtype is ignored. An axis with the name of an
 *          axis of `like` has its size too, and is split wherever that axis is; others are whole on
 *          every rank. Two axes need two names: [ffn, ffn'] for a matrix over an axis.
 *   init   "zeros" (the default), "ones", "constant:X", "eye": 1 on the diagonal of a square
 *          matrix, else 0; or, since 0.10, "copy": the values that the parameter has when the
 *          first step begins, drawn or loaded (in 16-bit jobs the fp32 master's). A resumed job
 *          has the state of its checkpoint. The state has all axes of the parameter, and floats
 *
 * A placement shards a state that has all axes of its parameter. Any other state is whole on each
 * of the coordinates among which the parameter is sharded, and each of them assigns it the same.
 *
 * A rule of WEFT_UNIT_ELEMENT may have states of any type of floats and any initial value, but only
 * with the axes of the parameter (keep and shape NULL), and so may a list: its states are split
 * where their parameters are. */
typedef struct weft_state_args {
    uint32_t struct_size, flags; /* flags: 0 */
    const char *name;
    weft_tensor like;
    uint32_t dtype;
    uint32_t reserved; /* 0 */
    const char *keep;
    const weft_shape *shape;
    const char *init;
} weft_state_args;
WEFT_FREEZE(weft_state_args, init, 56);

typedef struct weft_builder {
    uint32_t struct_size, flags;
    void *ctx; /* first argument of every call below */

    /* Look at a tensor. The strings live as long as the graph. [plan] */
    weft_status (*shape)(void *ctx, weft_tensor t, weft_shape *out);
    const char *(*name)(void *ctx, weft_tensor t);
    uint32_t (*kind)(void *ctx, weft_tensor t); /* WEFT_T_... */

    /* Begin the block `name`; everything until the next call belongs to it. Blocks whose ops,
     * shapes and attributes are equal share one copy of their instructions: number them at the end
     * of the name ("block.0", "block.1"). Models only. [plan] */
    weft_status (*block)(void *ctx, const char *name, uint32_t flags);

    /* A tensor that the core fills for each micro-batch: "tokens", "targets" and "positions" are
     * WEFT_I32 [tokens]. "first_token" is WEFT_I64 []: the number in the whole run of the
     * micro-batch's first token. Tokens are numbered by step, sequence and position, so that a
     * token has one number on every layout; asked for again, it is the same tensor. [plan] */
    weft_status (*input)(void *ctx, const weft_input_args *args, weft_tensor *out);

    /* A learned tensor. [plan] */
    weft_status (*param)(void *ctx, const weft_param_args *args, weft_tensor *out);

    /* A scalar from the list above, or a new one that starts at 0. New ones that a rule or a list
     * assigns are in checkpoints, and where the name has a dot ("acme.load") in the metrics of each
     * step. [plan] */
    weft_status (*scalar)(void *ctx, const char *name, uint32_t flags, weft_tensor *out);
    weft_status (*constant)(void *ctx, double value, uint32_t flags, weft_tensor *out);

    /* State of a parameter, kept across steps and in checkpoints: see weft_state_args. Rules and
     * lists only. WEFT_UNSUPPORTED: what this rule or list cannot have, with the reason. [plan] */
    weft_status (*state)(void *ctx, const weft_state_args *args, weft_tensor *out);

    /* Append an op. `nout` must be what the op's infer() says; `out` receives the handles, of
     * tensors whose names begin with the id and '#' and are unique. Unknown ids, shapes that do not
     * fit: WEFT_USAGE with a message. [plan] */
    weft_status (*op)(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                      const weft_tensor *in, uint32_t nin, uint32_t flags, weft_tensor *out,
                      uint32_t nout);

    /* Append communication along a mesh axis, or over a group, whose other coordinates keep theirs:
     * an ALL_REDUCE in a list, of what each coordinate has of its own; in a replacement a SHIFT
     * among the group's parts, and an ALL_REDUCE by WEFT_MAX of partial maxima, which the core
     * completes over the others. A model is built before there are groups. ALL_TO_ALL cuts the
     * named tensor axis, and joins the one that was split. A SHIFT takes what is split over the
     * axis: coordinate c has the part of c - root then. Its gradient is the conjugate: gather and
     * reduce-scatter, shift by r and by n - r, all-to-all and the one that cuts the joined axis. A
     * mesh axis of size 1 copies nothing: the output is the input. Along the first axis parts are
     * contiguous; where another axis is cut or joined, a copy before or after reads and writes the
     * tensor once, through a temporary of its size. An ALL_TO_ALL needs that no mesh axis inside
     * its own (named before it) splits the axes that it cuts and joins. [plan] */
    weft_status (*comm)(void *ctx, const weft_comm_args *args, weft_tensor in, weft_tensor *out);

    /* Assign src to dst (a parameter, state or scalar) at the end of the step: updates and lists.
     * The shapes are equal, and so are the types, but a state in 16 bits takes fp32, rounded.
     * In a rule a scalar may be assigned only from scalars, equally for every parameter, and once a
     * step; those of the list above cannot be assigned. In a replacement dst is an output of the
     * replaced op, of src's shape and type, and src replaces it from now on: assign each output
     * that has a reader once. [plan] */
    weft_status (*assign)(void *ctx, weft_tensor dst, weft_tensor src, uint32_t flags);

    /* Record why building fails; returns `code`. [plan] */
    weft_status (*fail)(void *ctx, weft_status code, const char *text);
} weft_builder;
WEFT_FREEZE(weft_builder, fail, 120);

WEFT_EXTERN_C_END

#endif
