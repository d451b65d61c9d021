/* builtin.h: what the families of ops share: their rows, shape inference from a signature, and
 * helpers.
 *
 * Each op has a signature, against which its shapes are checked; messages quote it:
 *
 *   linear: x[t,I..] w[O..,I..] b?[O..] -> y[t,O..]
 *
 * A small letter stands for one axis, a capital with ".." for one or more; equal letters must be
 * equal axes, in name and in size; "?" marks an input that may be left out. Element types: none
 * written is the op's compute type (that of its first such operand), ":i32", ":i64" and ":f32" are
 * fixed. [] is a scalar.
 *
 * To add an op:
 *   - here: a file with its table, one family a file (misc.c has ops of a few lines); the family
 *     below and in builtin.c. infer() checks attributes. A default is repeated in the device, and
 *     is equal there.
 *   - cpu device: plugins/device/cpu/ops/ops.c has the list.
 *   - sdk/check/reference has its loop; tests/ops/cases.c a call of it. Tests fail for an id that
 *     these do not know. tests/ops/ops_test.c and gradient_test.c.
 *   - tests/unit/graph: an example in graph_shard_test.c, which asks for one; a case in
 *     graph_ops_test.c; a case in graph_gradient_test.c if no model has the op, which asks for one.
 *   - with a cuda kernel: test_all of tests/gpu/small_test.c, tests/cuda/traffic_test.c. */
#ifndef BUILTIN_H
#define BUILTIN_H

#include <stdbool.h>
#include <weft/op.h>
#include <weft/shard.h>

/* The component of an op: its id, what it computes, the DOC() of its other texts, and the other
 * members of its weft_op. The letters of patterns have one meaning in all ops. */
#define OP(id, text, texts, ...)                                                                   \
    {                                                                                              \
        .struct_size = sizeof(weft_component), .iface = "weft.op/1", .name = (id), .help = (text), \
        .table = &(const weft_op)                                                                  \
        {                                                                                          \
            .struct_size = sizeof(weft_op),                                                        \
            .doc =                                                                                 \
                &(const weft_op_doc){                                                              \
                    .struct_size = sizeof(weft_op_doc), .help = (text), .axes = OP_AXES, texts},   \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define DOC(...) __VA_ARGS__
#define OP_AXES                                                                                    \
    "T tokens, A axes, B batch, C embed, D head_dim, F features, G kv_heads, H heads, I in, "      \
    "M rows, N along, O out, P merged, Q outer, R inner, S sums, V vocab"

/* One family a file. */
extern const weft_component op_linear[7], op_norm[3], op_rmsnorm[3], op_attention[2], op_rope[1],
    op_embedding[2], op_loss[2], op_elementwise[20], op_misc[6], op_swiglu[2], op_vocab_loss[4],
    op_rename[3], op_axis[4], op_random[2], op_cached[2];

/* b->fail() with a format. */
weft_status op_fail(const weft_builder *b, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "bf16 [tokens 32, embed 64]" into `text`, which is also what comes back. */
#define OP_TEXT 640
const char *op_shape_text(const weft_shape *s, char text[OP_TEXT]);

static inline bool op_is_float(uint32_t dtype)
{
    return weft_dtype_computes(dtype) || dtype == WEFT_F64;
}

int64_t op_elements(const weft_shape *s); /* product of all sizes */

/* Attributes by key; `dflt` when there is none. */
int64_t op_attr_i(const weft_attr *attrs, uint32_t nattr, const char *key, int64_t dflt);
double op_attr_f(const weft_attr *attrs, uint32_t nattr, const char *key, double dflt);

/* For infer() of an op with one result: sets *nout, which is the room for results on entry. */
weft_status op_one_result(const weft_builder *b, uint32_t *nout);

/* Check the inputs against a signature and derive the outputs. */
weft_status op_infer(const char *signature, const weft_builder *b, const weft_shape *in,
                     uint32_t nin, weft_shape *out, uint32_t *nout);

/* Whether input `i` gets its gradient in this phase. */
bool op_expects(const weft_builder *b, const weft_opcall *call, uint32_t i, uint32_t phase);

/* WEFT_UNSUPPORTED when a gradient flows into any output but the first. */
weft_status op_first_only(const weft_builder *b, const weft_opcall *call);

/* The grad() of a loss whose first output is the gradient of its logits already: the loss is where
 * the backward pass begins, so its own gradient is one. */
weft_status op_loss_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                         weft_tensor *din);

/* For ops that work on runs of `sequence` consecutive tokens (an attribute): checks that it is
 * given, that the tokens of `first`, its first axis, are whole sequences, and that they still are
 * when `place`, that of the first input, splits them among `size` coordinates. */
weft_status op_check_sequence(const weft_builder *b, const char *id, const weft_attr *attrs,
                              uint32_t nattr, const weft_shape *first);
weft_status op_check_split(const weft_builder *b, const char *id, const weft_opcall *call,
                           uint32_t size, weft_place place);

/* Append an op with one output and without attributes. An op whose gradient needs them calls
 * b->op() with call->attrs (rope.c). */
weft_status op_append(const weft_builder *b, const char *id, const weft_tensor *in, uint32_t nin,
                      weft_tensor *out);

#endif
