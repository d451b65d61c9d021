/* graph/arguments.h: validation of builder arguments that come from plugins.
 *
 * Plugins call the builder from replacements, lists, update rules and the functions of their ops.
 * Every pointer, string, count and number of such a call is checked here. A failure message begins
 * with the call, "builder.param(): ..."; the caller of the plugin puts the plugin's name before it.
 * Private to core/graph and core/plan. All functions: [plan], any thread. */
#ifndef GRAPH_ARGUMENTS_H
#define GRAPH_ARGUMENTS_H

#include "base/err.h"
#include "graph/graph.h"

/* Limit on builder calls by plugins for one graph: by all its replacements and lists, and by the
 * rule of an update. 96 layers of a ring over 512 ranks take 98,304 calls. The limit stops an
 * endless loop after some 100 MB. */
#define GRAPH_MAX_CALLS (1u << 17)

/* ... and one grad() of an op. */
#define GRAPH_MAX_CALLS_GRADIENT 4096u

/* Attributes of one op. The core adds the attribute "first" to some. */
#define GRAPH_MAX_ATTRS 15u

/* The calls that append to a graph, a bit each. */
#define CALL_BLOCK (1u << 0)
#define CALL_INPUT (1u << 1)
#define CALL_PARAM (1u << 2)
#define CALL_SCALAR (1u << 3)
#define CALL_CONSTANT (1u << 4)
#define CALL_STATE (1u << 5)
#define CALL_OP (1u << 6)
#define CALL_COMM (1u << 7)
#define CALL_ASSIGN (1u << 8)

/* Checks that this call is allowed in the current phase: in a model, a replacement, a gradient, an
 * update rule, a list, or while an op's infer or shard runs. Counts the call. WEFT_USAGE says where
 * the call is allowed. `g` NULL: the plugin has passed no ctx. No call knows one of `flags`. */
weft_status graph_check_call(graph *g, uint32_t call, uint32_t flags);

/* WEFT_USAGE with "`call`(): `what` is NULL" when it is. */
weft_status graph_check_pointer(const char *call, const char *what, const void *p);

/* Text of 1 to `max` bytes, all printable ASCII. At most `max` + 1 bytes are read. */
weft_status graph_check_text(const char *call, const char *what, const char *text, size_t max);

/* The name of a tensor, block, axis or list: 1 to WEFT_MAX_NAME - 1 bytes of printable ASCII
 * without '*', '|' and a leading '@' or '!', which are special in the globs of edits. */
weft_status graph_check_name(const char *call, const char *what, const char *name);

/* A shape that a plugin has made; `of` names the tensor in the message. */
weft_status graph_check_shape(const char *call, const char *of, const weft_shape *s);

/* The handle of a tensor that may be read (or written) in the current phase. In a list those are
 * parameters, states, scalars and tensors made by the list itself. */
weft_status graph_check_tensor(const graph *g, const char *call, const char *what, weft_tensor t);

/* The attributes of an op: an array of `n` with unique keys. */
weft_status graph_check_attrs(const char *id, const weft_attr *attrs, uint32_t n);

/* The constants of an op's table, checked against the call: flags, `ew` and its operands,
 * first_input and first_axis. `in` and `out` are shapes. */
weft_status graph_check_op(const weft_op *op, const char *id, const weft_shape *in, uint32_t nin,
                           const weft_shape *out, uint32_t nout);

/* Checks that no other op of the forward pass, or of a rule, draws random numbers of the same
 * stream as `n`, which is about to be appended. */
weft_status graph_check_stream(const graph *g, const graph_node *n);

/* Checks that tensor `src` has the axes of `dst`, to which it is assigned. */
weft_status graph_check_assigned(const graph *g, weft_tensor dst, weft_tensor src);

/* The builder's state() (builder_state.c), see weft/graph.h. */
weft_status graph_state(void *ctx, const weft_state_args *args, weft_tensor *out);

/* The builder's comm() (builder_comm.c): appends communication, see weft/graph.h. */
weft_status graph_comm(void *ctx, const weft_comm_args *args, weft_tensor in, weft_tensor *out);

/* Adds output `k` of the last node, an activation. In a list its name says of which parameter or
 * state it is made, for messages: "mul#58.0(head.w)". */
weft_tensor graph_add_output(graph *g, uint32_t k, const char *name, const weft_shape *shape);

/* Checks the status that a plugin's function returned: an invalid status becomes WEFT_INTERNAL, and
 * a failure without a message gets one that names `who` and `call`. */
weft_status graph_check_return(weft_status st, err_subject what, const char *who, const char *call);

#endif
