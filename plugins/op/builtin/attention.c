/* attention.c: self-attention over runs of `sequence` consecutive tokens.
 *
 * Its operands come in one of two forms:
 *
 *   fused     qkv [t, three, heads, head_dim]: as many heads of keys and values as of queries
 *   grouped   q [t, heads, head_dim], k and v [t, kv_heads, head_dim]: query head h looks at the
 *             keys and values of head h / (heads / kv_heads), so that heads / kv_heads neighbours
 *             share one
 *
 * Either form may end with reach [t], int32: of the tokens before it in its sequence, token t then
 * attends to the nearest reach[t] alone. So causal attention stays within a document where reach
 * has the place of each token in its document.
 *
 * Beside the result it keeps the log-sum-exp of each row of scores, from which backward forms the
 * scores again. It may be split along tokens by whole sequences, and along heads; in the grouped
 * form along heads and kv_heads together, since equal parts of both, in order, keep every query
 * head with its keys. */
#include "builtin.h"

static weft_status check_fused(const weft_builder *b, const weft_shape *qkv)
{
    char text[OP_TEXT];
    if (qkv->axes[1].size == 3)
        return WEFT_OK;
    return op_fail(b, WEFT_USAGE,
                   "attention takes queries, keys and values in one tensor [t, 3, heads, "
                   "head_dim]; it was given %s",
                   op_shape_text(qkv, text));
}

static weft_status check_groups(const weft_builder *b, const weft_shape *q, const weft_shape *k)
{
    if (q->axes[1].size % k->axes[1].size == 0)
        return WEFT_OK;
    return op_fail(b, WEFT_USAGE,
                   "attention gives each head of keys and values to equally many heads of "
                   "queries; %lld is not a multiple of %lld",
                   (long long)q->axes[1].size, (long long)k->axes[1].size);
}

/* Of two inputs the second is reach, which has one axis, or the keys of a wrong call. */
static bool is_fused(const weft_shape *in, uint32_t nin)
{
    return nin == 1 || (nin == 2 && in[1].rank == 1);
}

static weft_status attention_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                   const weft_shape *in, uint32_t nin, weft_shape *out,
                                   uint32_t *nout)
{
    static const char *const forms[] = {
        "attention: qkv[t,q,h,d] -> y[t,h,d] lse[t,h]:f32",
        "attention: qkv[t,q,h,d] reach[t]:i32 -> y[t,h,d] lse[t,h]:f32",
        "attention: q[t,h,d] k[t,g,d] v[t,g,d] -> y[t,h,d] lse[t,h]:f32",
        "attention: q[t,h,d] k[t,g,d] v[t,g,d] reach[t]:i32 -> y[t,h,d] lse[t,h]:f32"};
    const bool fused = is_fused(in, nin);
    const char *form = forms[fused ? nin == 2 : nin == 4 ? 3 : 2];
    weft_status st = op_infer(form, self->b, in, nin, out, nout);
    if (st == WEFT_OK)
        st = fused ? check_fused(self->b, &in[0]) : check_groups(self->b, &in[0], &in[1]);
    return st != WEFT_OK ? st : op_check_sequence(self->b, "attention", attrs, nattr, &in[0]);
}

static weft_status dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    static const char *const forms[] = {
        "attention.dx: dy[t,h,d] qkv[t,q,h,d] y[t,h,d] lse[t,h]:f32 -> dqkv[t,q,h,d]",
        "attention.dx: dy[t,h,d] qkv[t,q,h,d] y[t,h,d] lse[t,h]:f32 reach[t]:i32 -> dqkv[t,q,h,d]",
        "attention.dx: dy[t,h,d] q[t,h,d] k[t,g,d] v[t,g,d] y[t,h,d] lse[t,h]:f32 -> dq[t,h,d] "
        "dk[t,g,d] dv[t,g,d]",
        "attention.dx: dy[t,h,d] q[t,h,d] k[t,g,d] v[t,g,d] y[t,h,d] lse[t,h]:f32 reach[t]:i32 -> "
        "dq[t,h,d] dk[t,g,d] dv[t,g,d]"};
    const bool fused = nin < 6;
    const char *form = forms[fused ? nin == 5 : nin == 7 ? 3 : 2];
    weft_status st = op_infer(form, self->b, in, nin, out, nout);
    if (st == WEFT_OK)
        st = fused ? check_fused(self->b, &in[1]) : check_groups(self->b, &in[1], &in[2]);
    return st != WEFT_OK ? st : op_check_sequence(self->b, "attention.dx", attrs, nattr, &in[0]);
}

/* One op computes all gradients, at the first phase that needs any; the other phase finds them in
 * din. */
static weft_status attention_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                                  weft_tensor *din)
{
    weft_status st = op_first_only(self->b, call);
    bool wanted = false;
    const bool reach = call->nin % 2 == 0;
    const uint32_t operands = call->nin - reach;
    weft_tensor in[7] = {call->dout[0]};
    uint32_t n = 1;
    for (uint32_t i = 0; i < operands; i++) {
        wanted |= op_expects(self->b, call, i, phase);
        in[n++] = call->in[i];
    }
    if (st != WEFT_OK || !call->dout[0] || !wanted || din[0])
        return st;
    in[n++] = call->out[0];
    in[n++] = call->out[1];
    if (reach)
        in[n++] = call->in[operands];
    return self->b->op(self->b->ctx, "attention.dx", call->attrs, call->nattr, in, n, 0, din,
                       operands);
}

/* The grouped form: the heads are axis 1 of the first n operands, under two names. */
static weft_status heads_shard(const weft_builder *b, const weft_opcall *call, uint32_t n,
                               const weft_place *in, weft_place *out)
{
    if (n < call->nin && in[n].kind != WEFT_WHOLE)
        return op_fail(b, WEFT_UNSUPPORTED,
                       "attention needs %s whole on a mesh axis over which its heads are "
                       "split",
                       b->name(b->ctx, call->in[n]));
    for (uint32_t i = 1; i < n; i++)
        if (in[i].kind != in[0].kind || in[i].axis != in[0].axis)
            return op_fail(b, WEFT_UNSUPPORTED,
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
    bool fused = call->nin < 3;
    if (!fused && along_heads(call, in))
        return heads_shard(self->b, call, 3, in, out);
    weft_status st =
        weft_shard(self->b, call, in, out, &(weft_shard_rule){.only = 1u << 0 | (fused ? 4u : 0)});
    return st != WEFT_OK ? st : op_check_split(self->b, "attention", call, size, in[0]);
}

static weft_status dx_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    bool fused = call->nin < 6;
    if (!fused && along_heads(call, in))
        return heads_shard(self->b, call, 6, in, out);
    weft_status st =
        weft_shard(self->b, call, in, out,
                   &(weft_shard_rule){.terms = "a-----", .only = 1u << 0 | (fused ? 2u : 0)});
    return st != WEFT_OK ? st : op_check_split(self->b, "attention", call, size, in[0]);
}

/* Scores and their product with the values: 2 and 2 for every pair of positions and feature; a
 * causal pass needs half the pairs. What reach leaves out is not known here, and counts. */
static double attention_flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, const weft_shape *out,
                              uint32_t nout)
{
    (void)self;
    (void)in, (void)nin, (void)nout;
    double sequence = (double)op_attr_i(attrs, nattr, "sequence", 1);
    double half = op_attr_i(attrs, nattr, "causal", 1) ? 0.5 : 1.0;
    return 4.0 * half * sequence * (double)op_elements(&out[0]);
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

const weft_component op_attention[] = {
    OP("attention",
       "y = softmax(q k^T / sqrt(head_dim)) v within each sequence; lse: the "
       "log-sum-exp of each row of scores; reach: how many of "
       "the tokens before it a token attends to",
       DOC(.operands = "qkv:cT3HD | q:cTHD k:cTGD v:cTGD | qkv:cT3HD reach:iT | "
                       "q:cTHD k:cTGD v:cTGD reach:iT",
           .results = "y:cTHD lse:fTH | y:cTHD lse:fTH | y:cTHD lse:fTH | y:cTHD lse:fTH",
           .attributes = ATTRIBUTES, .formula = "4 T H D sequence; half if causal"),
       .infer = attention_infer, .grad = attention_grad, .shard = attention_shard,
       .flops = attention_flops),
    OP("attention.dx", "the gradients of the inputs of attention",
       DOC(.operands = "dy:cTHD qkv:cT3HD y:cTHD lse:fTH | dy:cTHD q:cTHD k:cTGD v:cTGD "
                       "y:cTHD lse:fTH | "
                       "dy:cTHD qkv:cT3HD y:cTHD lse:fTH reach:iT | "
                       "dy:cTHD q:cTHD k:cTGD v:cTGD y:cTHD lse:fTH reach:iT",
           .results = "dqkv:cT3HD | dq:cTHD dk:cTGD dv:cTGD | dqkv:cT3HD | "
                      "dq:cTHD dk:cTGD dv:cTGD",
           .attributes = ATTRIBUTES, .formula = "8 T H D sequence; half if causal"),
       .infer = dx_infer, .shard = dx_shard, .flops = dx_flops),
};

/* --- attention over keys and values that are kept: generation of text ---
 *
 * A sequence that grows row by row has one cache of keys and one of values for each attention:
 * [kv_heads, rows, head_dim], where row p belongs to the token at position p. The position of each
 * new token is an operand, `at`, so that one set of instructions serves every length.
 *
 *   cache.write        the cache with the rows at[t] replaced by those of x
 *   attention.cached   token t attends to the rows 0 to at[t] of the caches, its own among them
 *
 * x and the queries are those of attention: separate, or parts of one tensor of
 * queries, keys and values. A position outside the cache marks padding: cache.write drops the row,
 * and attention.cached gives zeros. Models do not build these ops; graph/cached.c puts them in
 * place of attention. They have no gradient. */

static weft_status check_part(const weft_builder *b, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *x)
{
    char text[OP_TEXT];
    const int64_t part = op_attr_i(attrs, nattr, "part", 1);
    if (x->axes[1].size == 3 && part >= 0 && part < 3)
        return WEFT_OK;
    return op_fail(b, WEFT_USAGE,
                   "cache.write takes part 0, 1 or 2 of a tensor [t, 3, heads, head_dim]; it "
                   "was given part %lld of %s",
                   (long long)part, op_shape_text(x, text));
}

static weft_status write_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                               const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const bool fused = nin > 1 && in[1].rank == 4;
    weft_status st = op_infer(fused ? "cache.write: cache[h,m,d] x[t,q,h,d] at[t]:i32 -> y[h,m,d]"
                                    : "cache.write: cache[g,m,d] x[t,g,d] at[t]:i32 -> y[g,m,d]",
                              self->b, in, nin, out, nout);
    return st == WEFT_OK && fused ? check_part(self->b, attrs, nattr, &in[1]) : st;
}

static weft_status cached_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    const bool fused = nin && in[0].rank == 4;
    weft_status st =
        op_infer(fused ? "attention.cached: qkv[t,q,h,d] k[h,m,d] v[h,m,d] at[t]:i32 -> y[t,h,d]"
                       : "attention.cached: q[t,h,d] k[g,m,d] v[g,m,d] at[t]:i32 -> y[t,h,d]",
                 self->b, in, nin, out, nout);
    if (st != WEFT_OK)
        return st;
    if (fused && in[0].axes[1].size != 3)
        return op_fail(self->b, WEFT_USAGE,
                       "attention.cached takes queries, keys and values in one tensor "
                       "[t, 3, heads, head_dim]; axis 1 has %lld elements",
                       (long long)in[0].axes[1].size);
    if (!fused && in[0].axes[1].size % in[1].axes[0].size)
        return op_fail(self->b, WEFT_USAGE,
                       "attention.cached gives each head of keys and values to equally many "
                       "heads of queries; %lld is not a multiple of %lld",
                       (long long)in[0].axes[1].size, (long long)in[1].axes[0].size);
    return WEFT_OK;
}

/* Along the heads alone: every head has its own rows. */
static weft_status write_shard(const weft_op_self *self, const weft_opcall *call,
                               const char *mesh_axis, uint32_t size, const weft_place *in,
                               weft_place *out)
{
    (void)mesh_axis, (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.only = 1u << 0});
}

/* Along the tokens, and along heads: of queries, keys and values together. */
static weft_status cached_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)mesh_axis, (void)size;
    weft_shape q;
    weft_status st = self->b->shape(self->b->ctx, call->in[0], &q);
    if (st != WEFT_OK)
        return st;
    const bool grouped = q.rank == 3;
    if (grouped && in[0].kind == WEFT_SPLIT && in[0].axis == 1 && in[1].kind == WEFT_SPLIT &&
        !in[1].axis && in[2].kind == WEFT_SPLIT && !in[2].axis && in[3].kind == WEFT_WHOLE) {
        out[0] = in[0];
        return WEFT_OK;
    }
    return weft_shard(self->b, call, in, out,
                      &(weft_shard_rule){.only = 1u << 0 | (grouped ? 0u : 1u << 2)});
}

/* Scores and their product with the values, for a cache that is full. */
static double cached_flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                           const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)self, (void)attrs, (void)nattr, (void)nin, (void)nout;
    return 4.0 * (double)in[1].axes[1].size * (double)op_elements(&out[0]);
}

const weft_component op_cached[] = {
    OP("cache.write",
       "y = cache, with row at[t] of each head replaced by x[t]; of tokens "
       "with one position the last counts, and none outside the cache",
       DOC(.operands = "cache:cGMD x:cTGD at:iT | cache:cHMD x:cT3HD at:iT",
           .results = "y:cGMD | y:cHMD",
           .attributes = "part int 1 of queries, keys and values in one tensor: 0, 1 or "
                         "2"),
       .in_place = 1, .infer = write_infer, .shard = write_shard),
    OP("attention.cached",
       "y[t] = softmax(q[t] k^T / sqrt(head_dim)) v over the rows 0 to at[t] "
       "of k and v; zeros for a position outside them",
       DOC(.operands = "q:cTHD k:cGMD v:cGMD at:iT | qkv:cT3HD k:cHMD v:cHMD at:iT",
           .results = "y:cTHD | y:cTHD", .formula = "4 T H D M"),
       .infer = cached_infer, .shard = cached_shard, .flops = cached_flops),
};
