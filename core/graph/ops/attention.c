/* graph/ops/attention.c: self-attention over runs of `sequence` consecutive tokens.
 *
 * Its operands come in one of two forms:
 *
 *   fused     qkv [t, three, heads, head_dim]: as many heads of keys and values as of queries
 *   grouped   q [t, heads, head_dim], k and v [t, kv_heads, head_dim]: query head h looks at the
 *             keys and values of head h / (heads / kv_heads), so that heads / kv_heads neighbours
 *             share one
 *
 * Beside the result it keeps the log-sum-exp of each row of scores, from which backward forms the
 * scores again. It may be split along tokens by whole sequences, and along heads; in the grouped
 * form along heads and kv_heads together, since equal parts of both, in order, keep every query
 * head with its keys. */
#include "graph/ops/util.h"

static weft_status check_fused(const weft_builder *b, const weft_shape *qkv)
{
    char text[OP_TEXT];
    if (qkv->axes[1].size == 3)
        return WEFT_OK;
    return graph_op_fail(b, WEFT_USAGE,
                         "attention takes queries, keys and values in one tensor [t, 3, heads, "
                         "head_dim]; it was given %s",
                         graph_op_shape_text(qkv, text));
}

static weft_status check_groups(const weft_builder *b, const weft_shape *q, const weft_shape *k)
{
    if (q->axes[1].size % k->axes[1].size == 0)
        return WEFT_OK;
    return graph_op_fail(b, WEFT_USAGE,
                         "attention gives each head of keys and values to equally many heads of "
                         "queries; %lld is not a multiple of %lld",
                         (long long)q->axes[1].size, (long long)k->axes[1].size);
}

static weft_status attention_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                   const weft_shape *in, uint32_t nin, weft_shape *out,
                                   uint32_t *nout)
{
    weft_status st =
        graph_op_infer(nin == 1 ? "attention: qkv[t,q,h,d] -> y[t,h,d] lse[t,h]:f32"
                                : "attention: q[t,h,d] k[t,g,d] v[t,g,d] -> y[t,h,d] lse[t,h]:f32",
                       self->b, in, nin, out, nout);
    if (st == WEFT_OK)
        st = nin == 1 ? check_fused(self->b, &in[0]) : check_groups(self->b, &in[0], &in[1]);
    return st != WEFT_OK ? st : graph_op_check_sequence(self->b, "attention", attrs, nattr, &in[0]);
}

static weft_status dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    weft_status st =
        graph_op_infer(nin == 4 ? "attention.dx: dy[t,h,d] qkv[t,q,h,d] y[t,h,d] lse[t,h]:f32 -> "
                                  "dqkv[t,q,h,d]"
                                : "attention.dx: dy[t,h,d] q[t,h,d] k[t,g,d] v[t,g,d] y[t,h,d] "
                                  "lse[t,h]:f32 -> dq[t,h,d] dk[t,g,d] dv[t,g,d]",
                       self->b, in, nin, out, nout);
    if (st == WEFT_OK)
        st = nin == 4 ? check_fused(self->b, &in[1]) : check_groups(self->b, &in[1], &in[2]);
    return st != WEFT_OK ? st
                         : graph_op_check_sequence(self->b, "attention.dx", attrs, nattr, &in[0]);
}

/* One op computes all gradients, at the first phase that needs any; the other phase finds them in
 * din. */
static weft_status attention_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                                  weft_tensor *din)
{
    weft_status st = graph_op_first_only(self->b, call);
    bool wanted = false;
    weft_tensor in[6] = {call->dout[0]};
    uint32_t n = 1;
    for (uint32_t i = 0; i < call->nin; i++) {
        wanted |= graph_op_expects(self->b, call, i, phase);
        in[n++] = call->in[i];
    }
    if (st != WEFT_OK || !call->dout[0] || !wanted || din[0])
        return st;
    in[n++] = call->out[0];
    in[n++] = call->out[1];
    return self->b->op(self->b->ctx, "attention.dx", call->attrs, call->nattr, in, n, 0, din,
                       call->nin);
}

/* The grouped form: the heads are axis 1 of every operand, under two names. */
static weft_status heads_shard(const weft_builder *b, const weft_opcall *call, const weft_place *in,
                               weft_place *out)
{
    for (uint32_t i = 1; i < call->nin; i++)
        if (in[i].kind != in[0].kind || in[i].axis != in[0].axis)
            return graph_op_fail(
                b, WEFT_UNSUPPORTED,
                "attention needs the heads of queries and those of keys and values "
                "split over the same mesh axis, but %s and %s are placed unlike",
                b->name(b->ctx, call->in[0]), b->name(b->ctx, call->in[i]));
    for (uint32_t i = 0; i < call->nout; i++)
        out[i] = in[0];
    return WEFT_OK;
}

static bool along_heads(const weft_opcall *call, const weft_place *in)
{
    bool any = false;
    for (uint32_t i = 0; i < call->nin; i++)
        any |= in[i].kind == WEFT_SPLIT && in[i].axis == 1;
    return any;
}

static weft_status attention_shard(const weft_op_self *self, const weft_opcall *call,
                                   const char *mesh_axis, uint32_t size, const weft_place *in,
                                   weft_place *out)
{
    (void)mesh_axis;
    bool fused = call->nin == 1;
    if (!fused && along_heads(call, in))
        return heads_shard(self->b, call, in, out);
    weft_status st =
        graph_op_shard(self->b, call, in, out, &(shard_rule){.only = 1u << 0 | (fused ? 4u : 0)});
    return st != WEFT_OK ? st : graph_op_check_split(self->b, "attention", call, size, in[0]);
}

static weft_status dx_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    bool fused = call->nin == 4;
    if (!fused && along_heads(call, in))
        return heads_shard(self->b, call, in, out);
    weft_status st =
        graph_op_shard(self->b, call, in, out,
                       &(shard_rule){.terms = "a-----", .only = 1u << 0 | (fused ? 2u : 0)});
    return st != WEFT_OK ? st : graph_op_check_split(self->b, "attention", call, size, in[0]);
}

/* Scores and their product with the values: 2 and 2 for every pair of positions and feature; a
 * causal pass needs half the pairs. */
static double attention_flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, const weft_shape *out,
                              uint32_t nout)
{
    (void)self;
    (void)in, (void)nin, (void)nout;
    double sequence = (double)graph_op_attr_i(attrs, nattr, "sequence", 1);
    double half = graph_op_attr_i(attrs, nattr, "causal", 1) ? 0.5 : 1.0;
    return 4.0 * half * sequence * (double)graph_op_elements(&out[0]);
}

/* Twice the forward pass. Recomputing the scores is not counted, like other recomputation. */
static double dx_flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                       const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)nin, (void)out;
    return 2.0 * attention_flops(self, attrs, nattr, in, 1, in, nout);
}

#define ATTRIBUTES                                                                                 \
    "sequence int - tokens of one sequence: a part of the tokens has whole sequences; "            \
    "causal int 1 1: a token attends to itself and to those before it, 0: to its whole sequence"

const op_entry graph_op_attention_family[] = {
    {"attention",
     {.struct_size = sizeof(weft_op),
      .infer = attention_infer,
      .grad = attention_grad,
      .shard = attention_shard,
      .flops = attention_flops,
      .doc = OP_DOC(.help = "y = softmax(q k^T / sqrt(head_dim)) v within each sequence; lse: the "
                            "log-sum-exp of each row of scores",
                    .operands = "qkv:cT3HD | q:cTHD k:cTGD v:cTGD",
                    .results = "y:cTHD lse:fTH | y:cTHD lse:fTH", .attributes = ATTRIBUTES,
                    .formula = "4 T H D sequence; half if causal")}},
    {"attention.dx",
     {.struct_size = sizeof(weft_op),
      .infer = dx_infer,
      .shard = dx_shard,
      .flops = dx_flops,
      .doc = OP_DOC(
              .help = "the gradients of the inputs of attention",
              .operands =
                  "dy:cTHD qkv:cT3HD y:cTHD lse:fTH | dy:cTHD q:cTHD k:cTGD v:cTGD y:cTHD lse:fTH",
              .results = "dqkv:cT3HD | dq:cTHD dk:cTGD dv:cTGD", .attributes = ATTRIBUTES,
              .formula = "8 T H D sequence; half if causal")}},
    {0},
};
