/* graph/graph.h: the model graph in memory.
 *
 * Tensors and nodes in the order in which they were built. A model (model.h) builds the forward
 * nodes, autodiff.c the backward nodes, place.c the communication. The graph is independent of
 * ranks: sizes are the whole job's, and each tensor has a placement for every mesh axis.
 *
 * Handles (weft_tensor) are 1 + the index into `tensors`. The graph's pool owns the memory. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/mem.h"
#include "host/host.h"

#include <stdbool.h>
#include <weft/coll.h>
#include <weft/op.h>
#include <weft/strategy.h>

typedef struct graph_mesh {
    uint32_t n; /* axes, innermost (fastest varying rank) first */
    const char *name[WEFT_MAX_MESH];
    uint32_t size[WEFT_MAX_MESH];
} graph_mesh;

/* Coordinate of `rank` on axis `a`, and the rank that has coordinate `c` there instead. */
uint32_t graph_mesh_coord(const graph_mesh *m, uint32_t rank, uint32_t a);
uint32_t graph_mesh_rank_at(const graph_mesh *m, uint32_t rank, uint32_t a, uint32_t c);
uint32_t graph_mesh_ranks(const graph_mesh *m);
int graph_mesh_axis(const graph_mesh *m, const char *name); /* -1: none */

/* The coordinates along some mesh axes (bits) number parts, those along the first axis fastest: how
 * many parts there are, and the number of the rank's. */
uint32_t graph_mesh_parts(const graph_mesh *m, uint64_t axes);
uint32_t graph_mesh_part(const graph_mesh *m, uint32_t rank, uint64_t axes);

/* Some coordinates of a mesh axis, by name (strategy.h, group). */
typedef struct graph_group {
    const char *name;
    uint32_t mesh_axis, n;
    const uint32_t *coords; /* [n] ascending */
} graph_group;

typedef struct graph_tensor {
    const char *name;
    uint32_t kind, flags; /* WEFT_T_... or TENSOR_REMOVED, WEFT_PARAM_... */
    uint32_t block;       /* that it was built in */
    uint32_t producer;    /* 1 + node, 0 for inputs, parameters, ... */
    weft_shape shape;     /* the whole job's */
    weft_place place[WEFT_MAX_MESH];
    uint8_t want[WEFT_MAX_MESH];     /* activations: 1 + the axis to split, by an edit; 0 */
    const char *init;                /* parameters; states, NULL: zeros */
    bool full;                       /* states: has all axes of its parameter, in order */
    uint32_t follows[WEFT_MAX_AXES]; /* states: [axis] 1 + the parameter's axis that splits it; 0 */
    const char *role;                /* parameters; NULL: none */
    weft_tensor grad;                /* parameters: its WEFT_T_GRAD tensor, once it has one */
    weft_tensor of;                  /* WEFT_T_GRAD: the parameter; state: the parameter */
    weft_tensor grad_for;            /* gradients of activations: of which tensor; placed like it */
    weft_tensor gathered[2];         /* its latest all-gather, in forward and in backward */
    uint64_t along;  /* bit a: communication over mesh axis a cuts or joins it, not along axis 0 */
    uint64_t placed; /* sums: bit a: a contribution has been placed along mesh axis a */
    weft_tensor part_of; /* a rank's own part of this tensor, along part_axis; 0: not so */
    uint32_t part_axis;
    uint64_t capacity; /* elements of its memory on a rank; 0: its own number */
    double value;      /* constants: scalar with `constant` set */
    bool constant;
    bool of_params;         /* activations: made from parameters and scalars alone (place.c) */
    bool sum;               /* contributions to it add up over the step: gradients, the loss */
    uint32_t keep;          /* WEFT_ACTIVATION_... for backward; 0: whole, the default */
    const char *keep_owner; /* plugin that set it; NULL: the job did */
} graph_tensor;

#define NO_AXIS UINT32_MAX
#define TENSOR_REMOVED 0u /* a parameter that replacements have left without readers */

#define PHASE_FORWARD 1u
#define PHASE_INPUTS 2u /* B */
#define PHASE_PARAMS 3u /* W */
#define PHASE_UPDATE 4u

typedef struct graph_node {
    const char *id;    /* op id; of communication "all_reduce" ... */
    const weft_op *op; /* NULL for communication and assignments */
    void *module;      /* of the op's plugin, and its options */
    const weft_conf *conf;
    const weft_attr *attrs;
    weft_tensor *in, *out;
    uint32_t nattr, nin, nout;
    uint32_t block, phase;
    uint32_t comm, redop; /* WEFT_ALL_REDUCE ...; 0: computes */
    uint32_t mesh_axis;
    uint32_t group;  /* 1 + the group over which it communicates; 0: the whole mesh axis */
    uint32_t root;   /* of a shift: how far */
    uint32_t cuts;   /* reduce-scatter, all-to-all: the tensor axis that it splits */
    uint32_t joins;  /* all-gather, all-to-all: the tensor axis that it completes; NO_AXIS: place.c
                        has not been here */
    bool assign;     /* out[0] (parameter, state, scalar) takes in[0] */
    bool recomputed; /* recomputes a forward node for backward: not counted as model FLOPs */
    bool join;       /* adds up contributions to one gradient */
    bool replaced;   /* by nodes [put_first, put_end): graph_apply_replacements() */
    uint32_t put_first, put_end; /* ... */
} graph_node;

/* Where a graph finds its ops: the op of an id; NULL: none. Fills `module` and `conf` of *self. */
typedef struct graph_ops {
    const weft_op *(*find)(void *ctx, const char *id, weft_op_self *self);
    void *ctx;
} graph_ops;

/* The ops of the objects that a host uses. [plan] */
graph_ops graph_ops_of(host *h);

/* What the builder is building: where it appends, and for whom it is called, which decides what it
 * may be asked. What is built inside something else keeps the session around it:
 *
 *     const graph_session outer = g->now;
 *     g->now.block = ...;
 *     (calls of the builder)
 *     g->now = outer; */
typedef struct graph_session {
    uint32_t phase, block;  /* of what is appended */
    const char *looking;    /* "infer", "shard", "edit": a function that appends nothing runs */
    const char *deriving;   /* id of the op whose grad() is running */
    uint32_t replacing;     /* 1 + the node whose replacement is being built */
    const char *state_of;   /* parameter whose update is being built; "": a list; NULL: neither */
    bool by_element;        /* that update sees ranges of many parameters, without their axes */
    weft_tensor list_after; /* the last tensor before the list that is being built */
} graph_session;

typedef VEC(graph_node) graph_nodes;

typedef struct graph {
    pool pool;
    VEC(graph_tensor) tensors;
    graph_nodes nodes;
    VEC(const char *) blocks;
    const graph_mesh *mesh;
    const graph_group *groups; /* [ngroups] of the job, as far as strategies have made them */
    uint32_t ngroups;
    uint32_t compute;    /* WEFT_F32, WEFT_BF16, WEFT_F16 */
    uint32_t grad_dtype; /* of WEFT_T_GRAD */
    uint64_t along;      /* the bits of `along` of all tensors */
    const struct weft_field
        *fields; /* [nfields] inputs that data fills; NULL: unknown (inputs.h) */
    uint32_t nfields;
    int64_t rows; /* of every input but scalars; 0: those of the first input */
    graph_ops ops;
    graph_session now;
    uint32_t calls;         /* of the builder by plugins: see arguments.h */
    struct {                /* tensors by name, for graph_find(); memory of the pool */
        weft_tensor *at;    /* [cap] a power of two, at most half full; 0: free */
        uint32_t cap, upto; /* upto: tensors that are in */
    } names;
} graph;

void graph_init(graph *g, const graph_mesh *m, graph_ops ops, uint32_t compute,
                uint32_t grad_dtype);
void graph_free(graph *g);
graph_tensor *graph_tensor_at(const graph *g, weft_tensor t); /* never NULL for a valid handle */
weft_tensor graph_find(const graph *g, const char *name);     /* 0: none */

/* The builder bound to `g`; valid as long as the graph. */
weft_builder graph_builder(graph *g);

/* Floating-point operations of a node on one rank, by local shapes; 0 without an op. [plan] */
double graph_node_flops(const graph *g, const graph_node *n);

/* Does the node read only the shape of input k, not its elements? */
bool graph_node_shape_only(const graph_node *n, uint32_t k);

/* The first argument of the functions of a node's op; `b` is the graph's builder. [plan] */
weft_op_self graph_op_self(const graph_node *n, const weft_builder *b);

/* Shape of `t` on one rank: split axes divided, rounded up where they do not divide evenly. */
weft_shape graph_local_shape(const graph *g, weft_tensor t);

/* Bit a: the placement of `t` along mesh axis a is of this kind. */
uint64_t graph_axes(const graph *g, weft_tensor t, uint32_t kind);

/* What each step along mesh axis a adds to the first index of a rank's part of axis `axis` of `t`;
 * false: the axis is not split. */
bool graph_local_start(const graph *g, weft_tensor t, uint32_t axis, uint64_t out[WEFT_MAX_MESH]);
uint64_t graph_local_elements(const graph *g, weft_tensor t);
uint64_t graph_local_bytes(const graph *g, weft_tensor t);

/* Index of the axis whose name is the first `n` bytes of `name`; rank: there is none. */
uint32_t graph_axis_of(const weft_shape *s, const char *name, size_t n);
bool graph_same_axes(const weft_shape *a, const weft_shape *b); /* by names and sizes */
uint64_t graph_shape_elements(const weft_shape *s);
uint64_t graph_shape_bytes(const weft_shape *s);

/* New tensor of any kind; name copied. Used by the builder and the passes. */
weft_tensor graph_add(graph *g, const char *name, uint32_t kind, const weft_shape *shape);
graph_node *graph_add_node(graph *g, const char *id, uint32_t nattr, uint32_t nin, uint32_t nout);

/* `list` becomes the nodes of the graph, which frees its own. */
void graph_take_nodes(graph *g, const graph_nodes *list);

/* Whoever moves nodes calls this for those from `first` on: activations know their producers by
 * number. */
void graph_number_producers(graph *g, uint32_t first);

/* Whoever takes nodes out of a graph calls this: activations that they made have no producer. */
void graph_forget_producers(graph *g, const graph_node *nodes, uint32_t n);

/* --- passes --- */

/* Set the placement of tensors that match `glob` along a named tensor axis (strategy.h, split). */
weft_status graph_split(graph *g, const char *glob, const char *axis, uint32_t mesh_axis);

/* Propagates placements through the nodes from `first` on, from their inputs. Where an op cannot
 * take the placement of an input, communication is inserted before it (place.c). */
weft_status graph_propagate(graph *g, uint32_t first);

/* Replaces node `op` by what `emit` builds. Numbers and handles stay valid until
 * graph_apply_replacements(), which moves the replacements to their positions. */
weft_status graph_replace(graph *g, uint32_t op, weft_emit emit, void *user);
weft_status graph_apply_replacements(graph *g);

/* What node `i`'s shard() answers along mesh axis `a` for the placements that its inputs have
 * (claims.c). WEFT_USAGE says what is wrong with the answer. [plan] */
weft_status graph_shard_node(graph *g, uint32_t i, uint32_t a, weft_place *out);

/* What the grad() of a node's op answers for one part (WEFT_GRAD_...); it appends to the graph. */
weft_status graph_derive_part(graph *g, const graph_node *n, const weft_opcall *call, uint32_t part,
                              weft_tensor *din);

/* Append the backward nodes of everything that `loss` depends on, last block first. Each parameter
 * that takes part gets a WEFT_T_GRAD tensor. */
weft_status graph_backward(graph *g, weft_tensor loss);

/* How activations of the forward pass that match are kept for backward (strategy.h, activations).
 * `owner`: the plugin that requests it, which other plugins must not contradict; NULL: the job,
 * which plugins may override.
 */
weft_status graph_set_keep(graph *g, const char *glob, uint32_t how, const char *owner);

/* After graph_backward and propagation: makes backward recompute the marked activations. */
void graph_recompute(graph *g);

/* After that: a block's backward does not gather twice what recomputation already gathers. */
void graph_share_gathers(graph *g);

/* Elementwise nodes joined into one program, and the tensors that it reads and writes. */
typedef struct graph_fused {
    weft_ew_program program;
    weft_tensor in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    uint32_t nin, nout;
} graph_fused;
bool graph_fused_fits(const graph_fused *f); /* devices have registers and steps for it */

/* Join `nodes`, whose tensors are those of `g`; what they assign is written, and results [tensor]
 * that are wanted outside (NULL: none are). The program's memory is that of the pool.
 * WEFT_UNSUPPORTED: a node is not elementwise. */
weft_status graph_fuse(const graph *g, const graph_nodes *nodes, weft_tensor gate,
                       const bool *wanted, pool *memory, graph_fused *out);

/* '*' matches any run of characters; alternatives are separated by '|'. One that begins with '!'
 * takes away what it matches, wherever it stands; those alone match all but that. */
bool graph_glob_match(const char *glob, const char *name);

/* The same for a tensor by its name and its role (NULL: none): an alternative "@ROLE" matches the
 * role, and "@input" an input that has rows ("!@ROLE": all but those). */
bool graph_glob_match_role(const char *glob, const char *name, const char *role);
bool graph_glob_match_tensor(const char *glob, const graph_tensor *t);

/* Does it match a parameter of the graph? */
bool graph_has_param(const graph *g, const char *glob);

#endif
