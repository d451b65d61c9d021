/* misc.c: biases that come with what follows them, sums, and conversion of types.
 *
 * bias_residual reads and writes each activation once where two ops would do so twice. The bias is
 * a parameter of its own, so that in a row-parallel product, whose result is a partial sum, it is
 * added once, after the sum. So may that of gelu be; where the product before has it, it needs
 * none.
 *
 * cast converts to the element type that its attribute "dtype" names: fp32, bf16, f16, i32 or u8,
 * from any of them. To a 16-bit type it rounds to nearest even, and what is too large becomes
 * infinite; to i32 and u8 it rounds to the nearest whole number, ties to even, and saturates, with
 * NaN as 0. It is an op of its own, not a step of an elementwise program, because values inside of
 * a program are fp32 and would not be rounded. */
#include "builtin.h"

static weft_status gelu_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("gelu: x[t,F..] b?[F..] -> y[t,F..]", self->b, in, nin, out, nout);
}

static weft_status gelu_dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                 const weft_shape *in, uint32_t nin, weft_shape *out,
                                 uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("gelu.dx: dy[t,F..] x[t,F..] b?[F..] -> dx[t,F..]", self->b, in, nin, out,
                    nout);
}

static weft_status residual_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                  const weft_shape *in, uint32_t nin, weft_shape *out,
                                  uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("bias_residual: x[t,F..] b[F..] r[t,F..] -> y[t,F..]", self->b, in, nin, out,
                    nout);
}

static weft_status accumulate_infer(const weft_op_self *self, const weft_attr *attrs,
                                    uint32_t nattr, const weft_shape *in, uint32_t nin,
                                    weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    bool scalar = nin == 1 && !in[0].rank;
    return op_infer(scalar ? "accumulate: x[] -> sum[]" : "accumulate: x[F..] -> sum[F..]", self->b,
                    in, nin, out, nout);
}

static weft_status sumsq_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                               const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    bool scalar = nin == 1 && !in[0].rank;
    return op_infer(scalar ? "sumsq: x[] -> sum[]:f32" : "sumsq: x[F..] -> sum[]:f32", self->b, in,
                    nin, out, nout);
}

static bool casts(uint32_t dtype)
{
    return weft_dtype_computes(dtype) || dtype == WEFT_I32 || dtype == WEFT_U8;
}

static weft_status cast_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const int64_t to = op_attr_i(attrs, nattr, "dtype", 0);
    char text[OP_TEXT];
    if (nin != 1)
        return op_fail(self->b, WEFT_USAGE, "it takes one tensor, not %u", nin);
    if (!casts(in[0].dtype))
        return op_fail(self->b, WEFT_USAGE, "%s is neither fp32, bf16, f16, i32 nor u8",
                       op_shape_text(&in[0], text));
    if (to < 0 || to > WEFT_U8 || !casts((uint32_t)to))
        return op_fail(self->b, WEFT_USAGE,
                       "it needs the attribute 'dtype', WEFT_F32, WEFT_BF16, WEFT_F16, "
                       "WEFT_I32 or WEFT_U8; it is %lld",
                       (long long)to);
    const weft_status st = op_one_result(self->b, nout);
    if (st != WEFT_OK)
        return st;
    out[0] = in[0];
    out[0].dtype = (uint32_t)to;
    return WEFT_OK;
}

/* Between floating point; whole numbers have no gradient. */
static weft_status cast_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    weft_shape x;
    if (!call->dout[0] || !op_expects(self->b, call, 0, phase))
        return WEFT_OK;
    weft_status st = self->b->shape(self->b->ctx, call->in[0], &x);
    const int64_t to = op_attr_i(call->attrs, call->nattr, "dtype", 0);
    if (st != WEFT_OK || !weft_dtype_computes(x.dtype) || !weft_dtype_computes((uint32_t)to))
        return st;
    const weft_attr back = WEFT_ATTR_INT("dtype", x.dtype);
    return self->b->op(self->b->ctx, "cast", &back, 1, &call->dout[0], 1, 0, &din[0], 1);
}

/* The bias has the column sums of x's gradient. `din` still holds what the part for inputs wrote;
 * where x needed none, or the parts are built apart, that gradient is formed here. */
static weft_status gelu_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    weft_status st = WEFT_OK;
    bool bias = op_expects(self->b, call, 1, phase);
    if (!call->dout[0] || (!bias && !op_expects(self->b, call, 0, phase)))
        return WEFT_OK;
    weft_tensor in[3] = {call->dout[0], call->in[0], call->nin > 1 ? call->in[1] : 0};
    if (!din[0])
        st = op_append(self->b, "gelu.dx", in, 1 + call->nin, &din[0]);
    return st != WEFT_OK || !bias ? st : op_append(self->b, "colsum", &din[0], 1, &din[1]);
}

static weft_status residual_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                                 weft_tensor *din)
{
    if (!call->dout[0])
        return WEFT_OK;
    for (uint32_t i = 0; i < 3; i += 2)
        if (op_expects(self->b, call, i, phase))
            din[i] = call->dout[0];
    return op_expects(self->b, call, 1, phase)
               ? op_append(self->b, "colsum", &call->dout[0], 1, &din[1])
               : WEFT_OK;
}

static weft_status gelu_dx_shard(const weft_op_self *self, const weft_opcall *call,
                                 const char *mesh_axis, uint32_t size, const weft_place *in,
                                 weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "a--"});
}

static weft_status residual_shard(const weft_op_self *self, const weft_opcall *call,
                                  const char *mesh_axis, uint32_t size, const weft_place *in,
                                  weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "abc"});
}

static weft_status accumulate_shard(const weft_op_self *self, const weft_opcall *call,
                                    const char *mesh_axis, uint32_t size, const weft_place *in,
                                    weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "a"});
}

/* Squares of a partial sum are not partial squares; of parts of a tensor, they are. */
static weft_status sumsq_shard(const weft_op_self *self, const weft_opcall *call,
                               const char *mesh_axis, uint32_t size, const weft_place *in,
                               weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.sums = 1});
}

const weft_component op_misc[] = {
    OP("gelu", "y = GELU(x + b) by its tanh formula; b only if it is given",
       DOC(.operands = "x:cT*F b:c*F?", .results = "y:cT*F"), .infer = gelu_infer,
       .grad = gelu_grad),
    OP("gelu.dx", "the gradient of x in gelu",
       DOC(.operands = "dy:cT*F x:cT*F b:c*F?", .results = "dx:cT*F"), .infer = gelu_dx_infer,
       .shard = gelu_dx_shard),
    OP("bias_residual", "y = x + b + r",
       DOC(.operands = "x:cT*F b:c*F r:cT*F", .results = "y:cT*F"), .infer = residual_infer,
       .grad = residual_grad, .shard = residual_shard),
    OP("accumulate", "sum = x, written or added to the output",
       DOC(.operands = "x:c*F | x:c", .results = "sum:g*F | sum:g"), .flags = WEFT_OP_ACCUMULATES,
       .infer = accumulate_infer, .shard = accumulate_shard),
    OP("sumsq", "sum = the sum of the squares of all elements",
       DOC(.operands = "x:c*F | x:c", .results = "sum:f | sum:f"), .flags = WEFT_OP_ACCUMULATES,
       .infer = sumsq_infer, .shard = sumsq_shard),
    OP("cast", "y = x in another element type; whole numbers saturate",
       DOC(.operands = "x:x*F", .results = "y:x*F",
           .attributes = "dtype int - the element type of y, WEFT_F32 ... WEFT_U8"),
       .infer = cast_infer, .grad = cast_grad),
};
