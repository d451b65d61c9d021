/* norm.c: layer normalisation.
 *
 * y = (x - mean) * rstd * g + b over the last axis, which is never split. Mean and reciprocal
 * standard deviation are outputs, kept for the backward pass. */
#include "builtin.h"

static weft_status norm_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("layernorm: x[t,c] g[c] b[c] -> y[t,c] mean[t]:f32 rstd[t]:f32", self->b, in,
                    nin, out, nout);
}

static weft_status dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("layernorm.dx: dy[t,c] x[t,c] g[c] mean[t]:f32 rstd[t]:f32 -> dx[t,c]", self->b,
                    in, nin, out, nout);
}

static weft_status dw_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("layernorm.dw: dy[t,c] x[t,c] mean[t]:f32 rstd[t]:f32 -> dg[c] db[c]", self->b,
                    in, nin, out, nout);
}

static weft_status norm_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    weft_tensor dy = call->dout[0], x = call->in[0], mean = call->out[1], rstd = call->out[2];
    weft_status st = op_first_only(self->b, call);
    if (st != WEFT_OK || !dy)
        return st;
    if (op_expects(self->b, call, 0, phase))
        st = op_append(self->b, "layernorm.dx", (weft_tensor[]){dy, x, call->in[1], mean, rstd}, 5,
                       &din[0]);
    if (st != WEFT_OK ||
        (!op_expects(self->b, call, 1, phase) && !op_expects(self->b, call, 2, phase)))
        return st;
    return self->b->op(self->b->ctx, "layernorm.dw", NULL, 0, (weft_tensor[]){dy, x, mean, rstd}, 4,
                       0, &din[1], 2);
}

static weft_status norm_shard(const weft_op_self *self, const weft_opcall *call,
                              const char *mesh_axis, uint32_t size, const weft_place *in,
                              weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.only = 1u << 0});
}

/* Both gradients are linear in dy; dg and db add up over the tokens. */
static weft_status dx_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out,
                      &(weft_shard_rule){.terms = "a----", .only = 1u << 0});
}

static weft_status dw_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out,
                      &(weft_shard_rule){.terms = "a---", .only = 1u << 0, .sums = 1});
}

const weft_component op_norm[] = {
    OP("layernorm", "y = (x - mean) rstd g + b over the last axis; rstd = 1 / sqrt(variance + eps)",
       DOC(.operands = "x:cTC g:cC b:cC", .results = "y:cTC mean:fT rstd:fT",
           .attributes = "eps real 1e-05 added to the variance"),
       .infer = norm_infer, .grad = norm_grad, .shard = norm_shard),
    OP("layernorm.dx", "the gradient of x in layernorm",
       DOC(.operands = "dy:cTC x:cTC g:cC mean:fT rstd:fT", .results = "dx:cTC"), .infer = dx_infer,
       .shard = dx_shard),
    OP("layernorm.dw", "the gradients of g and b in layernorm",
       DOC(.operands = "dy:cTC x:cTC mean:fT rstd:fT", .results = "dg:gC db:gC"),
       .flags = WEFT_OP_ACCUMULATES, .infer = dw_infer, .shard = dw_shard),
};
