/* graph/ops/util.h: helpers shared by the op tables. Private to core/graph. */
#ifndef GRAPH_OPS_UTIL_H
#define GRAPH_OPS_UTIL_H

#include <stdbool.h>
#include <weft/op.h>

#include "graph/ops/ops.h"

typedef struct graph_op_entry {
    const char *id;
    weft_op op;
} graph_op_entry;

/* The doc of a core op. The letters of its patterns have one meaning in all core ops. */
#define OP_DOC(...)                                                                                \
    (&(const weft_op_doc){.struct_size = sizeof(weft_op_doc), .axes = OP_AXES, __VA_ARGS__})
#define OP_AXES                                                                                    \
    "T tokens, A axes, B batch, C embed, D head_dim, F features, G kv_heads, H heads, I in, "      \
    "M rows, N along, O out, P merged, Q outer, R inner, S sums, V vocab"

/* One family a file, each ended by an entry without id. */
extern const graph_op_entry graph_op_linear_family[], graph_op_norm_family[],
    graph_op_rmsnorm_family[], graph_op_attention_family[], graph_op_rope_family[],
    graph_op_embedding_family[], graph_op_loss_family[], graph_op_elementwise_family[],
    graph_op_misc_family[], graph_op_swiglu_family[], graph_op_vocab_loss_family[],
    graph_op_rename_family[], graph_op_axis_family[], graph_op_random_family[],
    graph_op_cached_family[];

/* b->err_fail() with a format. */
weft_status graph_op_fail(const weft_builder *b, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "bf16 [tokens 32, embed 64]" into `text`, which is also what comes back. */
#define OP_TEXT 640
const char *graph_op_shape_text(const weft_shape *s, char text[OP_TEXT]);

/* Types that tensors are computed in, and those of real numbers. */
static inline bool graph_op_is_compute(uint32_t dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

static inline bool graph_op_is_float(uint32_t dtype)
{
    return graph_op_is_compute(dtype) || dtype == WEFT_F64;
}

/* Index of the axis `name` in `s`, or -1. */
int graph_op_axis(const weft_shape *s, const char *name);
int64_t graph_op_elements(const weft_shape *s); /* product of all sizes */

/* Attributes by key; `dflt` when there is none. */
int64_t graph_op_attr_i(const weft_attr *attrs, uint32_t nattr, const char *key, int64_t dflt);
double graph_op_attr_f(const weft_attr *attrs, uint32_t nattr, const char *key, double dflt);

/* Check the inputs against a signature (ops.h) and derive the outputs. */
weft_status graph_op_infer(const char *signature, const weft_builder *b, const weft_shape *in,
                           uint32_t nin, weft_shape *out, uint32_t *nout);

/* Algebraic properties of an op for graph_op_shard(), besides its axes.
 *
 * `terms` has one character an input. The op is a sum of terms, each a product that is linear in
 * its factors: inputs with the same letter are factors of one term ("aab" is x times w plus b); '-'
 * is an input in which the op is not linear. NULL: linear in none. */
typedef struct graph_shard_rule {
    const char *terms;
    uint32_t only; /* axes of input 0 along which a split is valid, one bit each; 0: any axis */
    uint32_t sums; /* 1: the op adds up over an axis that an output lacks */
} graph_shard_rule;

/* As graph_shard_by_names(), and also:
 *
 *   - An output without the split axis is a partial sum, if the op sums and every one of its terms
 *     has the axis (a term without it would be counted once per coordinate).
 *   - Partial sums are propagated when nothing is split and every term has exactly one partial
 *     factor. Partial maxima never are.
 */
weft_status graph_op_shard(const weft_builder *b, const weft_opcall *call, const weft_place *in,
                           weft_place *out, const graph_shard_rule *rule);

/* Whether input `i` gets its gradient in this phase. */
bool graph_op_expects(const weft_builder *b, const weft_opcall *call, uint32_t i, uint32_t phase);

/* WEFT_UNSUPPORTED when a gradient flows into any output but the first. */
weft_status graph_op_first_only(const weft_builder *b, const weft_opcall *call);

/* For ops that work on runs of `sequence` consecutive tokens (an attribute): checks that it is
 * given, that the tokens of `first`, its first axis, are whole sequences, and that they still are
 * when `place`, that of the first input, splits them among `size` coordinates. */
weft_status graph_op_check_sequence(const weft_builder *b, const char *id, const weft_attr *attrs,
                                    uint32_t nattr, const weft_shape *first);
weft_status graph_op_check_split(const weft_builder *b, const char *id, const weft_opcall *call,
                                 uint32_t size, weft_place place);

/* Append an op with one output and without attributes. An op whose gradient needs them calls
 * b->op() with call->attrs (rope.c). */
weft_status graph_op_append(const weft_builder *b, const char *id, const weft_tensor *in,
                            uint32_t nin, weft_tensor *out);

#endif
