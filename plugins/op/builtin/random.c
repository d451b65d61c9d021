/* random.c: random numbers, and dropout.
 *
 *   random    numbers of the shape of `like`: attribute "distribution" 0: uniform in [0, 1), 1:
 *             normal
 *   dropout   y = r + m (x + b) / (1 - p), where m is 0 with the probability "p" and else 1; the
 *             bias b and the residual r may be left out. Where m is 0, so is the product, whatever
 *             x is
 *
 * The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * 2011): four words are a function of a counter of 128 bits and a key of 64. The key is run.seed,
 * the upper half of the counter the attribute "stream", and the lower half with the position among
 * the four words is the number of the element:
 *
 *   number   = time * unit + index in the whole tensor, row-major
 *   counter  = 16 * (number / 64) + number % 16, word number % 64 / 16
 *
 * So 64 neighbours take 16 counters, and a vector of counters gives vectors of neighbours.
 *
 * `time` is the input "first_token", the number in the run of the micro-batch's first token: then
 * the first axis is the tokens, and the unit is a row. A micro-batch is a range of rows of one
 * tensor that has all tokens of the run, so numbers depend neither on ranks nor on the size of
 * micro-batches. For tensors without tokens, of up to 2^40 elements, `time` is the scalar "step",
 * and the unit is 2^40; in update rules the stream is that of the op and of the parameter.
 *
 * Every split is possible: kernels get the index at which a rank's part begins (WEFT_OP_NUMBERED).
 * A partial sum is completed first. Dropout of parts would be right too, as all have one mask, but
 * would cost as many draws on every rank, and in 16 bits would round each part. The gradient of
 * dropout is dropout of the gradient with the same numbers, so nothing is stored. */
#include <string.h>

#include "builtin.h"

/* The time and the first axis of what it numbers belong together. */
static weft_status check_time(const weft_builder *b, bool dropout, const weft_shape *time,
                              const weft_shape *x)
{
    char text[OP_TEXT];
    const int tokens = weft_shard_axis(x, "tokens");
    if (!time->rank && time->dtype == WEFT_I64 && tokens == 0)
        return WEFT_OK;
    if (!time->rank && time->dtype == WEFT_F32 && tokens < 0 && !dropout)
        return WEFT_OK;
    op_shape_text(x, text);
    return op_fail(b, WEFT_USAGE,
                   "the time is not that of %s; it is the input 'first_token' for "
                   "tensors whose first axis is 'tokens', and the scalar 'step' for tensors "
                   "without this axis, which dropout does not take",
                   text);
}

#define SIGNATURE "time[]:i64 like[T..] -> y[T..]:f32, or time[]:f32 like[F..] -> y[F..]:f32"

static weft_status random_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const int64_t kind = op_attr_i(attrs, nattr, "distribution", 0);
    char time[OP_TEXT];
    if (nin != 2)
        return op_fail(self->b, WEFT_USAGE, "%s: %u inputs were given", SIGNATURE, nin);
    if (in[0].rank || (in[0].dtype != WEFT_I64 && in[0].dtype != WEFT_F32))
        return op_fail(self->b, WEFT_USAGE, "%s: time cannot be %s", SIGNATURE,
                       op_shape_text(&in[0], time));
    if (kind != 0 && kind != 1)
        return op_fail(self->b, WEFT_UNSUPPORTED,
                       "the attribute 'distribution' is %lld; this version knows 0, "
                       "uniform, and 1, normal",
                       (long long)kind);
    if (in[0].dtype == WEFT_F32 && op_elements(&in[1]) > (int64_t)1 << 40)
        return op_fail(self->b, WEFT_UNSUPPORTED,
                       "a tensor of %lld elements that is timed by the scalar "
                       "'step'; at most 2^40 are possible",
                       (long long)op_elements(&in[1]));
    weft_status st = check_time(self->b, false, &in[0], &in[1]);
    if (st == WEFT_OK)
        st = op_one_result(self->b, nout);
    if (st != WEFT_OK)
        return st;
    out[0] = in[1];
    out[0].dtype = WEFT_F32;
    return WEFT_OK;
}

static weft_status dropout_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                 const weft_shape *in, uint32_t nin, weft_shape *out,
                                 uint32_t *nout)
{
    const double p = op_attr_f(attrs, nattr, "p", 0);
    weft_status st = op_infer("dropout: x[t,F..] time[]:i64 b?[F..] r?[t,F..] -> y[t,F..]", self->b,
                              in, nin, out, nout);
    if (st == WEFT_OK && !(p >= 0 && p < 1))
        st = op_fail(self->b, WEFT_USAGE,
                     "the probability 'p' is %g; it must be at least 0 and below 1", p);
    return st == WEFT_OK ? check_time(self->b, true, &in[1], &in[0]) : st;
}

/* What is drawn depends on no value. */
static weft_status random_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                               weft_tensor *din)
{
    (void)self, (void)call, (void)phase, (void)din;
    return WEFT_OK;
}

/* The bias has the column sums of x's gradient, which may be formed for it alone (misc.c). */
static weft_status dropout_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                                weft_tensor *din)
{
    const weft_tensor in[] = {call->dout[0], call->in[1]};
    const bool bias = op_expects(self->b, call, 2, phase);
    weft_status st = WEFT_OK;
    if (!call->dout[0])
        return WEFT_OK;
    if (op_expects(self->b, call, 3, phase))
        din[3] = call->dout[0];
    if (!din[0] && (bias || op_expects(self->b, call, 0, phase)))
        st = self->b->op(self->b->ctx, "dropout", call->attrs, call->nattr, in, 2, 0, &din[0], 1);
    return st == WEFT_OK && bias ? op_append(self->b, "colsum", &din[0], 1, &din[2]) : st;
}

/* Of the last input only the shape matters: a partial sum has it on every coordinate. The time is
 * one number that all coordinates have. */
static weft_status random_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)call, (void)mesh_axis, (void)size;
    if (in[0].kind == WEFT_PARTIAL_SUM || in[0].kind == WEFT_PARTIAL_MAX)
        return op_fail(self->b, WEFT_UNSUPPORTED, "random: its time is a partial result");
    if (in[1].kind == WEFT_SPLIT || in[1].kind == WEFT_HELD)
        out[0] = in[1];
    return WEFT_OK;
}

const weft_component op_random[] = {
    OP("random", "random numbers of the shape of like, from Philox4x32-10",
       DOC(.operands = "time:l like:x*T | time:f like:x*F", .results = "y:f*T | y:f*F",
           .attributes = "stream int 0 which numbers: every op of a graph has its own; "
                         "distribution int 0 0: uniform in [0, 1), 1: normal"),
       .flags = WEFT_OP_SHAPE_LAST | WEFT_OP_NUMBERED, .infer = random_infer, .grad = random_grad,
       .shard = random_shard, .first_input = 2),
    OP("dropout",
       "y = r + m (x + b) / (1 - p), m 0 with probability p, else 1; b, r only "
       "if they are given",
       DOC(.operands = "x:cT*F time:l b:c*F? r:cT*F?", .results = "y:cT*F",
           .attributes = "stream int 0 which numbers: every op of a graph has its own; "
                         "p real 0 probability that an element is dropped"),
       .flags = WEFT_OP_NUMBERED, .in_place = 1, .infer = dropout_infer, .grad = dropout_grad,
       .first_input = 1),
};
