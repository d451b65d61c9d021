/* rope.c: rotary position embedding.
 *
 * x [t, heads, head_dim], queries or keys, is turned by the position p of its token within its
 * sequence, t mod `sequence`. Element i of the first half of head_dim forms a pair with element i
 * of the second half, as the public Llama code does (rotate_half), and not with its neighbour:
 *
 *   y[i]     = x[i] cos a - x[i + half] sin a        a = sign * p * theta^(-2 i / head_dim)
 *   y[i + half] = x[i + half] cos a + x[i] sin a
 *
 * Attributes: sequence, theta (default 10000), sign (1, or -1 for the inverse; default 1). For
 * longer sequences than a model was first trained on, `factor` divides angles: all of them, or
 * with `original`, the length of that training, those that turn less than `low` times in it, and
 * a part of it those that turn less than `high` times (Llama 3). The
 * gradient of a rotation is the inverse rotation of dy; nothing has to be kept for it. It may be
 * split along heads, and along tokens by whole sequences.
 *
 * With a second operand, at [t], the position of each token is given: from 0 to sequence - 1, and
 * the nearest of these for one outside. Then tokens need not be whole sequences. */
#include <string.h>

#include "builtin.h"

static weft_status rope_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    weft_status st =
        op_infer(nin > 1 ? "rope: x[t,h,d] at[t]:i32 -> y[t,h,d]" : "rope: x[t,h,d] -> y[t,h,d]",
                 self->b, in, nin, out, nout);
    if (st != WEFT_OK)
        return st;
    int64_t sign = op_attr_i(attrs, nattr, "sign", 1);
    if (in[0].axes[2].size % 2)
        return op_fail(self->b, WEFT_USAGE,
                       "it turns pairs of elements, so the axis '%s' must be even; it has "
                       "%lld elements",
                       in[0].axes[2].name, (long long)in[0].axes[2].size);
    if (!(op_attr_f(attrs, nattr, "theta", 1e4) > 0) || (sign != 1 && sign != -1))
        return op_fail(self->b, WEFT_USAGE,
                       "it needs a positive attribute 'theta' and a 'sign' of 1 or -1");
    const double low = op_attr_f(attrs, nattr, "low", 1), high = op_attr_f(attrs, nattr, "high", 4);
    if (!(op_attr_f(attrs, nattr, "factor", 1) > 0) || !(low > 0) || !(high > low) ||
        op_attr_i(attrs, nattr, "original", 0) < 0)
        return op_fail(self->b, WEFT_USAGE,
                       "it needs a positive 'factor', 0 < 'low' < 'high', and an "
                       "'original' of 0 or more");
    if (nin > 1 && op_attr_i(attrs, nattr, "sequence", 0) < 1)
        return op_fail(self->b, WEFT_USAGE, "it needs the attribute 'sequence'");
    return nin > 1 ? WEFT_OK : op_check_sequence(self->b, "rope", attrs, nattr, &in[0]);
}

static weft_status rope_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    if (!call->dout[0] || !op_expects(self->b, call, 0, phase))
        return WEFT_OK;
    weft_attr attrs[16];
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->nattr && n < 15; i++)
        if (strcmp(call->attrs[i].key, "sign"))
            attrs[n++] = call->attrs[i];
    attrs[n++] = (weft_attr){.key = "sign", .i = -op_attr_i(call->attrs, call->nattr, "sign", 1)};
    const weft_tensor in[] = {call->dout[0], call->nin > 1 ? call->in[1] : 0};
    return self->b->op(self->b->ctx, "rope", attrs, n, in, call->nin, 0, &din[0], 1);
}

static weft_status rope_shard(const weft_op_self *self, const weft_opcall *call,
                              const char *mesh_axis, uint32_t size, const weft_place *in,
                              weft_place *out)
{
    (void)mesh_axis;
    weft_status st = weft_shard(self->b, call, in, out,
                                &(weft_shard_rule){.terms = "a-", .only = 1u << 0 | 1u << 1});
    return st != WEFT_OK || call->nin > 1 ? st : op_check_split(self->b, "rope", call, size, in[0]);
}

const weft_component op_rope[] = {
    OP("rope",
       "y = x, the pairs (i, i + head_dim / 2) of each head turned by sign p "
       "theta^(-2 i / head_dim), p the position of the token in its sequence, or "
       "at[t]",
       DOC(.operands = "x:cTHD | x:cTHD at:iT", .results = "y:cTHD | y:cTHD",
           .attributes = "sequence int - tokens of one sequence: a part of the tokens has "
                         "whole sequences; theta real 10000 the base of the angles; sign "
                         "int 1 1, or -1 for the inverse rotation; factor real 1 what "
                         "angles are divided by; original int 0 the sequence of a first "
                         "training: angles that turn high times in it or more stay; low "
                         "real 1 below so many turns angles are divided entirely; high "
                         "real 4 as original says"),
       .in_place = 1, .infer = rope_infer, .grad = rope_grad, .shard = rope_shard),
};
