/* graph/op_attention.c: causal self-attention over runs of `sequence` consecutive tokens.
 *
 * Queries, keys and values come in one tensor [t, three, heads, head_dim]; beside the result it
 * keeps the log-sum-exp of each row of scores, from which backward forms the scores again. It may
 * be split along heads, and along tokens by whole sequences. */
#include "graph/op_util.h"

static weft_status check_sequence(const weft_builder *b, const weft_attr *attrs, uint32_t nattr,
                                  const weft_shape *first)
{
    int64_t sequence = op_attr_i(attrs, nattr, "sequence", 0);
    int64_t tokens = first->axes[0].size;
    if (sequence < 1)
        return shape_fail(b, WEFT_USAGE,
                          "attention needs the attribute 'sequence', the tokens of one sequence");
    if (tokens % sequence)
        return shape_fail(
            b, WEFT_USAGE,
            "attention over sequences of %lld tokens was given %lld tokens, which is no "
            "whole number of sequences",
            (long long)sequence, (long long)tokens);
    return WEFT_OK;
}

static weft_status attention_infer(const weft_builder *b, const weft_attr *attrs, uint32_t nattr,
                                   const weft_shape *in, uint32_t nin, weft_shape *out,
                                   uint32_t *nout)
{
    weft_status st =
        op_infer("attention: qkv[t,q,h,d] -> y[t,h,d] lse[t,h]:f32", b, in, nin, out, nout);
    if (st)
        return st;
    char text[OP_TEXT];
    if (in[0].axes[1].size != 3)
        return shape_fail(b, WEFT_USAGE,
                          "attention takes queries, keys and values in one tensor [t, 3, heads, "
                          "head_dim]; it was given %s",
                          op_shape_text(&in[0], text));
    return check_sequence(b, attrs, nattr, &in[0]);
}

static weft_status dx_infer(const weft_builder *b, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    weft_status st = op_infer("attention.dx: dy[t,h,d] qkv[t,q,h,d] y[t,h,d] lse[t,h]:f32 -> "
                              "dqkv[t,q,h,d]",
                              b, in, nin, out, nout);
    return st ? st : check_sequence(b, attrs, nattr, &in[0]);
}

static weft_status attention_grad(const weft_builder *b, const weft_opcall *call, uint32_t phase,
                                  weft_tensor *din)
{
    weft_status st = op_first_only(b, call);
    if (st || !call->dout[0] || !op_wants(b, call, 0, phase))
        return st;
    weft_tensor in[] = {call->dout[0], call->in[0], call->out[0], call->out[1]};
    return b->op(b->ctx, "attention.dx", call->attrs, call->nattr, in, 4, &din[0], 1);
}

/* A part of the tokens has to be whole sequences. */
static weft_status check_cut(const weft_builder *b, const weft_opcall *call, uint32_t size,
                             weft_place place)
{
    weft_shape first;
    weft_status st = b->shape(b->ctx, call->in[0], &first);
    if (st || place.kind != WEFT_SPLIT || place.axis != 0)
        return st;
    int64_t sequence = op_attr_i(call->attrs, call->nattr, "sequence", 1);
    if (first.axes[0].size % ((int64_t)size * sequence) == 0)
        return WEFT_OK;
    return shape_fail(
        b, WEFT_UNSUPPORTED,
        "%lld tokens split in %u would cut a sequence of %lld tokens, which attention "
        "needs whole; the sequences of a pass must be a multiple of %u",
        (long long)first.axes[0].size, size, (long long)sequence, size);
}

static weft_status attention_shard(const weft_builder *b, const weft_opcall *call, uint32_t size,
                                   const weft_place *in, weft_place *out)
{
    weft_status st = op_shard(b, call, in, out, &(shard_rule){.only = 1u << 0 | 1u << 2});
    return st ? st : check_cut(b, call, size, in[0]);
}

static weft_status dx_shard(const weft_builder *b, const weft_opcall *call, uint32_t size,
                            const weft_place *in, weft_place *out)
{
    weft_status st =
        op_shard(b, call, in, out, &(shard_rule){.terms = "a---", .only = 1u << 0 | 1u << 1});
    return st ? st : check_cut(b, call, size, in[0]);
}

/* Scores and their product with the values: 2 and 2 for every pair of positions and feature; a
 * causal pass needs half the pairs. */
static double attention_flops(const weft_attr *attrs, uint32_t nattr, const weft_shape *in,
                              uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)in, (void)nin, (void)nout;
    double sequence = (double)op_attr_i(attrs, nattr, "sequence", 1);
    double half = op_attr_i(attrs, nattr, "causal", 0) ? 0.5 : 1.0;
    return 4.0 * half * sequence * (double)op_elements(&out[0]);
}

/* Twice the forward pass. That the scores are formed once more is not counted: it is the price of
 * not keeping them, as recomputation is. */
static double dx_flops(const weft_attr *attrs, uint32_t nattr, const weft_shape *in, uint32_t nin,
                       const weft_shape *out, uint32_t nout)
{
    (void)nin, (void)out;
    return 2.0 * attention_flops(attrs, nattr, in, 1, in, nout);
}

const op_entry op_attention_family[] = {
    {"attention",
     {.struct_size = sizeof(weft_op),
      .infer = attention_infer,
      .grad = attention_grad,
      .shard = attention_shard,
      .flops = attention_flops}},
    {"attention.dx",
     {.struct_size = sizeof(weft_op), .infer = dx_infer, .shard = dx_shard, .flops = dx_flops}},
    {0},
};
