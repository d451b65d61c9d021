/* op.c: one round of ring attention, and its gradient.
 *
 *   attend(qkv [t,three,h,d], moved [t,three,h,d], y' [t,h,d]?, l' [t,h]?) -> y [t,h,d], l [t,h]
 *
 * The queries of qkv look at the keys and values of `moved`. What the rounds before have made, the
 * result y' and the log-sum-exp l' of the scores, is merged: with scores s_j of this round
 *
 *   l = log(e^l' + sum e^s_j);  y = e^(l' - l) y' + sum e^(s_j - l) v_j
 *
 * The gradient, for dy and dl, with p_j = e^(s_j - l) and w = e^(l' - l):
 *
 *   dv_j = p_j dy;  ds_j = p_j (dl + dy (v_j - y));  dy' = w dy;  dl' = w (dl + dy (y' - y))
 *
 * Which keys may be looked at depends on where the rank's tokens stand in the sequence: the kernels
 * are told by the attribute "first" (weft/op.h). */
#include "ring.h"

static weft_axis named(const weft_shape *s, uint32_t i)
{
    return s->axes[i];
}

/* Whether each operand has as many axes as its digit says: qkv has [t, three, h, d], and others
 * have some of these. */
static int fit(const weft_shape *in, uint32_t nin, const char *ranks, const weft_shape *qkv)
{
    for (uint32_t i = 0; i < nin; i++) {
        if (in[i].rank != (uint32_t)(ranks[i] - '0') ||
            (in[i].rank == 4 && in[i].axes[1].size != 3))
            return 0;
        for (uint32_t k = 0, at = 0; k < in[i].rank; k++, at++) {
            at += in[i].rank < 4 && at == 1; /* without the axis of three */
            if (in[i].axes[k].size != qkv->axes[at].size)
                return 0;
        }
    }
    return 1;
}

#define SHAPES ", which have the axes [t, three, h, d], [t, h, d] and [t, h]"

/* What both ops have in common. */
static weft_status check_call(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                              uint32_t room, uint32_t results)
{
    if (ring_attr(attrs, nattr, "sequence") < 1 || ring_attr(attrs, nattr, "rounds") < 1)
        return self->b->fail(self->b->ctx, WEFT_USAGE,
                             ATTEND ": the attributes sequence and rounds have to be 1 or more");
    if (room < results)
        return self->b->fail(self->b->ctx, WEFT_USAGE, ATTEND ": no room for all results");
    return WEFT_OK;
}

static weft_status attend_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    if ((nin != FIRST_ROUND && nin != LATER_ROUND) || !fit(in, nin, "4432", &in[QKV]))
        return self->b->fail(self->b->ctx, WEFT_USAGE,
                             ATTEND " takes qkv, moved, and two of the round before" SHAPES);
    const weft_status st = check_call(self, attrs, nattr, *nout, OUTPUTS);
    if (st != WEFT_OK)
        return st;
    const weft_axis t = named(&in[QKV], 0), h = named(&in[QKV], 2), d = named(&in[QKV], 3);
    out[Y] = (weft_shape){in[QKV].dtype, 3, 0, 0, {t, h, d}};
    out[LSE] = (weft_shape){WEFT_F32, 2, 0, 0, {t, h}};
    *nout = OUTPUTS;
    return WEFT_OK;
}

/* Each gradient is as what it is the gradient of. */
static weft_status dx_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const uint32_t inputs = nin - 2 * OUTPUTS;
    const char *ranks = inputs == FIRST_ROUND ? "324432" : "32443232";
    if ((inputs != FIRST_ROUND && inputs != LATER_ROUND) ||
        !fit(in, nin, ranks, &in[OUTPUTS + QKV]))
        return self->b->fail(self->b->ctx, WEFT_USAGE,
                             ATTEND_DX " takes the gradients of the outputs of " ATTEND
                                       ", its inputs and its outputs" SHAPES);
    const weft_status st = check_call(self, attrs, nattr, *nout, inputs);
    if (st != WEFT_OK)
        return st;
    *nout = inputs;
    for (uint32_t i = 0; i < *nout; i++)
        out[i] = in[OUTPUTS + i];
    return WEFT_OK;
}

/* Nothing flows into the last log-sum-exp: nought does. */
static weft_status grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                        weft_tensor *din)
{
    weft_tensor in[ALL] = {call->dout[Y], call->dout[LSE]};
    const weft_tensor lse[] = {call->out[LSE], call->out[LSE]};
    uint32_t n = OUTPUTS;
    weft_status st = WEFT_OK;
    if (phase != WEFT_GRAD_INPUTS)
        return WEFT_OK;
    if (!in[LSE])
        st = self->b->op(self->b->ctx, "sub", NULL, 0, lse, 2, 0, &in[LSE], 1);
    for (uint32_t i = 0; i < call->nin; i++)
        in[n++] = call->in[i];
    for (uint32_t i = 0; i < OUTPUTS; i++)
        in[n++] = call->out[i];
    return st ? st
              : self->b->op(self->b->ctx, ATTEND_DX, call->attrs, call->nattr, in, n, 0, din,
                            call->nin);
}

/* Of coordinates 0 .. rounds - 1 those from `round` on see the keys of this round; the first one's
 * are half hidden. */
static double flops(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                    const weft_shape *in, uint32_t nin, const weft_shape *out, uint32_t nout)
{
    (void)self;
    (void)nin, (void)out, (void)nout;
    const double rounds = (double)ring_attr(attrs, nattr, "rounds");
    const double round = (double)ring_attr(attrs, nattr, "round");
    const double keys = (double)ring_attr(attrs, nattr, "sequence") / rounds;
    double seen = round > 0 ? 1 - round / rounds : 0.5, work = 4 * keys;
    if (!ring_attr(attrs, nattr, "causal"))
        seen = 1;
    for (uint32_t i = 0; i < in[0].rank; i++) /* of queries alone, or of dy */
        work *= in[0].rank == 4 && i == 1 ? 1 : (double)in[0].axes[i].size;
    return seen * work * (in[0].rank == 4 ? 1 : 2);
}

#define AXES "T tokens, H heads, D head_dim"
#define ATTRIBUTES                                                                                 \
    "sequence int -T tokens of one sequence; causal int 0 1: a token attends to itself and to "    \
    "those before it; round int 0 the round, from 0; rounds int - how many there are"
#define FORMULA                                                                                    \
    " T H D sequence / rounds, times the part of the ranks that see the keys of this round"
static const weft_op_doc attend_doc = {
    .struct_size = sizeof attend_doc,
    .help = "one round of ring attention, merged with what the rounds before have made",
    .operands = "qkv:cT3HD moved:cT3HD | qkv:cT3HD moved:cT3HD y_before:cTHD lse_before:fTH",
    .results = "y:cTHD lse:fTH | y:cTHD lse:fTH",
    .axes = AXES,
    .attributes = ATTRIBUTES,
    .formula = "4" FORMULA};
static const weft_op_doc attend_dx_doc = {
    .struct_size = sizeof attend_dx_doc,
    .help = "the gradients of the inputs of " ATTEND,
    .operands = "dy:cTHD dlse:fTH qkv:cT3HD moved:cT3HD y:cTHD lse:fTH | dy:cTHD dlse:fTH "
                "qkv:cT3HD moved:cT3HD y_before:cTHD lse_before:fTH y:cTHD lse:fTH",
    .results = "dqkv:cT3HD dmoved:cT3HD | dqkv:cT3HD dmoved:cT3HD dy_before:cTHD dlse_before:fTH",
    .axes = AXES,
    .attributes = ATTRIBUTES,
    .formula = "8" FORMULA};

const weft_op ring_attend = {.struct_size = sizeof ring_attend,
                             .infer = attend_infer,
                             .grad = grad,
                             .whole = "three,head_dim",
                             .flops = flops,
                             .first_input = 1,
                             .doc = &attend_doc};
const weft_op ring_attend_dx = {.struct_size = sizeof ring_attend_dx,
                                .infer = dx_infer,
                                .whole = "three,head_dim",
                                .flops = flops,
                                .first_input = 1,
                                .doc = &attend_dx_doc};
