/* rmsnorm.c: root-mean-square normalisation (RMSNorm), as in the Llama family.
 *
 * y = x * rstd * g with rstd = 1 / sqrt(mean(x^2) + eps) over the last axis, which is never cut:
 * layer normalisation without the mean and without the bias. rstd is an output, kept for the
 * backward pass. x is [tokens, features], or [tokens, heads, features]: each head of queries or
 * keys by itself. */
#include "builtin.h"

static bool of_heads(const weft_shape *in, uint32_t nin)
{
    return nin && in[0].rank == 3;
}

static weft_status norm_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer(of_heads(in, nin) ? "rmsnorm: x[t,h,c] g[c] -> y[t,h,c] rstd[t,h]:f32"
                                      : "rmsnorm: x[t,c] g[c] -> y[t,c] rstd[t]:f32",
                    self->b, in, nin, out, nout);
}

static weft_status dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer(of_heads(in, nin)
                        ? "rmsnorm.dx: dy[t,h,c] x[t,h,c] g[c] rstd[t,h]:f32 -> dx[t,h,c]"
                        : "rmsnorm.dx: dy[t,c] x[t,c] g[c] rstd[t]:f32 -> dx[t,c]",
                    self->b, in, nin, out, nout);
}

static weft_status dw_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer(of_heads(in, nin) ? "rmsnorm.dw: dy[t,h,c] x[t,h,c] rstd[t,h]:f32 -> dg[c]"
                                      : "rmsnorm.dw: dy[t,c] x[t,c] rstd[t]:f32 -> dg[c]",
                    self->b, in, nin, out, nout);
}

static weft_status norm_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    weft_tensor dy = call->dout[0], x = call->in[0], rstd = call->out[1];
    weft_status st = op_first_only(self->b, call);
    if (st != WEFT_OK || !dy)
        return st;
    if (op_expects(self->b, call, 0, phase))
        st =
            op_append(self->b, "rmsnorm.dx", (weft_tensor[]){dy, x, call->in[1], rstd}, 4, &din[0]);
    if (st != WEFT_OK || !op_expects(self->b, call, 1, phase))
        return st;
    return op_append(self->b, "rmsnorm.dw", (weft_tensor[]){dy, x, rstd}, 3, &din[1]);
}

/* Tokens, and heads where there are any. */
static uint32_t cuts(const weft_opcall *call, const weft_builder *b)
{
    weft_shape x;
    const bool heads = b->shape(b->ctx, call->in[0], &x) == WEFT_OK && x.rank == 3;
    return heads ? 1u << 0 | 1u << 1 : 1u << 0;
}

static weft_status norm_shard(const weft_op_self *self, const weft_opcall *call,
                              const char *mesh_axis, uint32_t size, const weft_place *in,
                              weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.only = cuts(call, self->b)});
}

/* Both gradients are linear in dy; dg adds up over the tokens. */
static weft_status dx_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out,
                      &(weft_shard_rule){.terms = "a---", .only = cuts(call, self->b)});
}

static weft_status dw_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out,
                      &(weft_shard_rule){.terms = "a--", .only = cuts(call, self->b), .sums = 1});
}

const weft_component op_rmsnorm[] = {
    OP("rmsnorm", "y = x rstd g over the last axis; rstd = 1 / sqrt(mean(x^2) + eps)",
       DOC(.operands = "x:cTC g:cC | x:cTHC g:cC", .results = "y:cTC rstd:fT | y:cTHC rstd:fTH",
           .attributes = "eps real 1e-05 added to the mean of the squares"),
       .infer = norm_infer, .grad = norm_grad, .shard = norm_shard),
    OP("rmsnorm.dx", "the gradient of x in rmsnorm",
       DOC(.operands = "dy:cTC x:cTC g:cC rstd:fT | dy:cTHC x:cTHC g:cC rstd:fTH",
           .results = "dx:cTC | dx:cTHC"),
       .infer = dx_infer, .shard = dx_shard),
    OP("rmsnorm.dw", "the gradient of g in rmsnorm",
       DOC(.operands = "dy:cTC x:cTC rstd:fT | dy:cTHC x:cTHC rstd:fTH",
           .results = "dg:gC | dg:gC"),
       .flags = WEFT_OP_ACCUMULATES, .infer = dw_infer, .shard = dw_shard),
};
