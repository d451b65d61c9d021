/* swiglu.c: SwiGLU, the gated activation of a Llama block.
 *
 * y = gate * logistic(gate) * up, elementwise. Gate and up are results of two products and not
 * halves of one, so that a split of their feature axis splits both equally and no element needs
 * data of another rank. The gradient needs only dy and the two inputs. */
#include "builtin.h"

static weft_status swiglu_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("swiglu: gate[t,F..] up[t,F..] -> y[t,F..]", self->b, in, nin, out, nout);
}

static weft_status dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return op_infer("swiglu.dx: dy[t,F..] gate[t,F..] up[t,F..] -> dgate[t,F..] dup[t,F..]",
                    self->b, in, nin, out, nout);
}

/* One op computes both gradients, at the first phase that needs any; the other finds them in
 * din. */
static weft_status swiglu_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                               weft_tensor *din)
{
    bool wanted = op_expects(self->b, call, 0, phase) || op_expects(self->b, call, 1, phase);
    if (!call->dout[0] || !wanted || din[0])
        return WEFT_OK;
    weft_tensor in[] = {call->dout[0], call->in[0], call->in[1]};
    return self->b->op(self->b->ctx, "swiglu.dx", NULL, 0, in, 3, 0, din, 2);
}

/* Linear in up alone. */
static weft_status swiglu_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "-a"});
}

static weft_status dx_shard(const weft_op_self *self, const weft_opcall *call,
                            const char *mesh_axis, uint32_t size, const weft_place *in,
                            weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "a--"});
}

const weft_component op_swiglu[] = {
    OP("swiglu", "y = gate logistic(gate) up",
       DOC(.operands = "gate:cT*F up:cT*F", .results = "y:cT*F"), .infer = swiglu_infer,
       .grad = swiglu_grad, .shard = swiglu_shard),
    OP("swiglu.dx", "the gradients of gate and up in swiglu",
       DOC(.operands = "dy:cT*F gate:cT*F up:cT*F", .results = "dgate:cT*F dup:cT*F"),
       .in_place = 1, .infer = dx_infer, .shard = dx_shard),
};
