/* linear.c: matrix products.
 *
 * The weight is [O.., I..], the input [t, I..], the result [t, O..]; O and I may be several axes.
 * Its gradients are products of the same three: dx = dy w, dw = dy^T x, db = the column sums of dy.
 * Split along O the result is split; along I in both operands, it is a partial sum; along t, dw is.
 *
 * bmm has a product for each index of the leading axes, which both operands have (the experts of a
 * layer): x [B.., m, i], w [B.., o, i], y [B.., m, o]. Its gradients are bmm.dx, dy w, and bmm.dw,
 * dy^T x. Split along an axis of B all three are split. */
#include "builtin.h"

static weft_status linear_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("linear: x[t,I..] w[O..,I..] b?[O..] -> y[t,O..]", self->b, in, nin, out, nout);
}

static weft_status dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("linear.dx: dy[t,O..] w[O..,I..] -> dx[t,I..]", self->b, in, nin, out, nout);
}

static weft_status dw_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("linear.dw: dy[t,O..] x[t,I..] -> dw[O..,I..]", self->b, in, nin, out, nout);
}

static weft_status colsum_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("colsum: dy[t,O..] -> db[O..]", self->b, in, nin, out, nout);
}

static weft_status bmm_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                             const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("bmm: x[B..,m,i] w[B..,o,i] -> y[B..,m,o]", self->b, in, nin, out, nout);
}

static weft_status bmm_dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("bmm.dx: dy[B..,m,o] w[B..,o,i] -> dx[B..,m,i]", self->b, in, nin, out, nout);
}

static weft_status bmm_dw_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("bmm.dw: dy[B..,m,o] x[B..,m,i] -> dw[B..,o,i]", self->b, in, nin, out, nout);
}

static weft_status linear_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                               weft_tensor *din)
{
    weft_tensor dy = call->dout[0], x = call->in[0], w = call->in[1];
    weft_status st = WEFT_OK;
    if (!dy)
        return WEFT_OK;
    if (op_expects(self->b, call, 0, phase))
        st = op_append(self->b, "linear.dx", (weft_tensor[]){dy, w}, 2, &din[0]);
    if (st == WEFT_OK && op_expects(self->b, call, 1, phase))
        st = op_append(self->b, "linear.dw", (weft_tensor[]){dy, x}, 2, &din[1]);
    if (st == WEFT_OK && op_expects(self->b, call, 2, phase))
        st = op_append(self->b, "colsum", &dy, 1, &din[2]);
    return st;
}

static weft_status bmm_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    weft_tensor dy = call->dout[0], x = call->in[0], w = call->in[1];
    weft_status st = WEFT_OK;
    if (!dy)
        return WEFT_OK;
    if (op_expects(self->b, call, 0, phase))
        st = op_append(self->b, "bmm.dx", (weft_tensor[]){dy, w}, 2, &din[0]);
    if (st == WEFT_OK && op_expects(self->b, call, 1, phase))
        st = op_append(self->b, "bmm.dw", (weft_tensor[]){dy, x}, 2, &din[1]);
    return st;
}

static weft_status linear_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "aab", .sums = 1});
}

static weft_status product_shard(const weft_op_self *self, const weft_opcall *call,
                                 const char *mesh_axis, uint32_t size, const weft_place *in,
                                 weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "aa", .sums = 1});
}

/* 2 m n k: a multiplication and an addition for every token and element of the weight. */
static double linear_flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                           const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)self;
    (void)attrs, (void)nattr, (void)nin, (void)out, (void)nout;
    return 2.0 * (double)in[0].axes[0].size * (double)op_elements(&in[1]);
}

static double dw_flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                       const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)self;
    (void)attrs, (void)nattr, (void)nin, (void)nout;
    return 2.0 * (double)in[0].axes[0].size * (double)op_elements(&out[0]);
}

/* 2 m n k for each product: in all three the first operand lacks only the result's last axis. */
static double bmm_flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                        const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)self, (void)attrs, (void)nattr, (void)nin, (void)nout;
    return 2.0 * (double)op_elements(&in[0]) * (double)out[0].axes[out[0].rank - 1].size;
}

const weft_component op_linear[] = {
    OP("linear", "y = x w^T + b: a product with a weight, and the bias if there is one",
       DOC(.operands = "x:cT*I w:c*O*I b:c*O?", .results = "y:cT*O", .formula = "2 T I O"),
       .infer = linear_infer, .grad = linear_grad, .shard = linear_shard, .flops = linear_flops),
    OP("linear.dx", "dx = dy w: the gradient of x in linear",
       DOC(.operands = "dy:cT*O w:c*O*I", .results = "dx:cT*I", .formula = "2 T I O"),
       .infer = dx_infer, .shard = product_shard, .flops = linear_flops),
    OP("linear.dw", "dw = dy^T x: the gradient of w in linear",
       DOC(.operands = "dy:cT*O x:cT*I", .results = "dw:g*O*I", .formula = "2 T I O"),
       .flags = WEFT_OP_ACCUMULATES, .infer = dw_infer, .shard = product_shard, .flops = dw_flops),
    OP("bmm", "y = x w^T for each index of the leading axes: batched products",
       DOC(.operands = "x:c*BMI w:c*BOI", .results = "y:c*BMO", .formula = "2 B M O I"),
       .infer = bmm_infer, .grad = bmm_grad, .shard = product_shard, .flops = bmm_flops),
    OP("bmm.dx", "dx = dy w for each index: the gradient of x in bmm",
       DOC(.operands = "dy:c*BMO w:c*BOI", .results = "dx:c*BMI", .formula = "2 B M O I"),
       .infer = bmm_dx_infer, .shard = product_shard, .flops = bmm_flops),
    OP("bmm.dw", "dw = dy^T x for each index: the gradient of w in bmm",
       DOC(.operands = "dy:c*BMO x:c*BMI", .results = "dw:g*BOI", .formula = "2 B M O I"),
       .flags = WEFT_OP_ACCUMULATES, .infer = bmm_dw_infer, .shard = product_shard,
       .flops = bmm_flops),
    OP("colsum", "db = the sum of dy over the tokens: the gradient of a bias",
       DOC(.operands = "dy:cT*O", .results = "db:g*O"), .flags = WEFT_OP_ACCUMULATES,
       .infer = colsum_infer, .shard = product_shard),
};
