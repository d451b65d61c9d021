/* elementwise.c: the elementwise ops, used in update rules.
 *
 * Operands have one shape, or are scalars, which are broadcast. Arithmetic is fp32: where operands
 * differ in type the result is f32. Gradients are written in the same ops; a scalar broadcast to a
 * tensor has no gradient (it would be a sum), which is an error unless it is a plain scalar. */
#include <string.h>

#include "builtin.h"

static bool same_shape(const weft_shape *a, const weft_shape *c)
{
    bool same = a->rank == c->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->axes[i].size == c->axes[i].size && !strcmp(a->axes[i].name, c->axes[i].name);
    return same;
}

static weft_status infer_n(uint32_t arity, const weft_builder *b, const weft_shape *in,
                           uint32_t nin, weft_shape *out, uint32_t *nout)
{
    char a[OP_TEXT], c[OP_TEXT];
    if (nin != arity)
        return op_fail(b, WEFT_USAGE, "this elementwise op takes %u inputs, not %u", arity, nin);
    uint32_t full = 0; /* the first operand that is no scalar */
    while (full < nin - 1 && !in[full].rank)
        full++;
    weft_shape result = in[full];
    for (uint32_t i = 0; i < nin; i++) {
        if (!op_is_float(in[i].dtype))
            return op_fail(b, WEFT_USAGE, "elementwise ops work on floating point, not on %s",
                           op_shape_text(&in[i], a));
        if (!in[i].rank && result.rank)
            continue;
        if (!same_shape(&in[full], &in[i]))
            return op_fail(b, WEFT_USAGE,
                           "an elementwise op needs operands of one shape or scalars; it was given "
                           "%s and %s",
                           op_shape_text(&in[full], a), op_shape_text(&in[i], c));
        if (in[i].dtype != result.dtype)
            result.dtype = WEFT_F32;
    }
    const weft_status st = op_one_result(b, nout);
    if (st == WEFT_OK)
        out[0] = result;
    return st;
}

static weft_status infer1(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                          const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return infer_n(1, self->b, in, nin, out, nout);
}

static weft_status infer2(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                          const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return infer_n(2, self->b, in, nin, out, nout);
}

static weft_status infer3(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                          const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)attrs, (void)nattr;
    return infer_n(3, self->b, in, nin, out, nout);
}

/* --- Gradients --- */

/* Formulas of several ops; after the first failure the rest does nothing. */
typedef struct formula {
    const weft_builder *b;
    const weft_opcall *call;
    uint32_t phase;
    weft_status st;
} formula;

static weft_tensor term(formula *f, const char *id, weft_tensor x, weft_tensor y)
{
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = op_append(f->b, id, (weft_tensor[]){x, y}, y ? 2 : 1, &out);
    return out;
}

static weft_tensor number(formula *f, double value)
{
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->constant(f->b->ctx, value, 0, &out);
    return out;
}

/* condition != 0 ? x : y */
static weft_tensor choose(formula *f, weft_tensor x, weft_tensor y, weft_tensor condition)
{
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = op_append(f->b, "select", (weft_tensor[]){x, y, condition}, 3, &out);
    return out;
}

static formula begin(const weft_builder *b, const weft_opcall *call, uint32_t phase)
{
    return (formula){b, call, phase, WEFT_OK};
}

/* Whether the gradient of input i is needed in this phase. */
static bool wanted(formula *f, uint32_t i)
{
    const weft_builder *b = f->b;
    weft_shape x, y;
    if (f->st != WEFT_OK || !f->call->dout[0] || !op_expects(b, f->call, i, f->phase))
        return false;
    f->st = b->shape(b->ctx, f->call->in[i], &x);
    if (f->st == WEFT_OK)
        f->st = b->shape(b->ctx, f->call->out[0], &y);
    if (f->st != WEFT_OK || x.rank || !y.rank)
        return f->st == WEFT_OK;
    f->st = op_fail(b, WEFT_UNSUPPORTED,
                    "%s is a scalar in an elementwise op on a tensor; its gradient, a sum over the "
                    "tensor, is not available",
                    b->name(b->ctx, f->call->in[i]));
    return false;
}

static weft_status copy_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = call->dout[0];
    return f.st;
}

static weft_status neg_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = term(&f, "neg", call->dout[0], 0);
    return f.st;
}

static weft_status add_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    for (uint32_t i = 0; i < 2; i++)
        if (wanted(&f, i))
            din[i] = call->dout[0];
    return f.st;
}

static weft_status sub_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = call->dout[0];
    if (wanted(&f, 1))
        din[1] = term(&f, "neg", call->dout[0], 0);
    return f.st;
}

static weft_status mul_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    for (uint32_t i = 0; i < 2; i++)
        if (wanted(&f, i))
            din[i] = term(&f, "mul", call->dout[0], call->in[1 - i]);
    return f.st;
}

/* y = a / c: dy / c, and -dy y / c */
static weft_status div_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = term(&f, "div", call->dout[0], call->in[1]);
    if (wanted(&f, 1)) {
        weft_tensor slope = term(&f, "div", call->out[0], call->in[1]);
        din[1] = term(&f, "neg", term(&f, "mul", call->dout[0], slope), 0);
    }
    return f.st;
}

/* The whole gradient goes to the selected operand; to the first when they are equal. */
static weft_status choice_grad(const weft_builder *b, const weft_opcall *call, uint32_t phase,
                               weft_tensor *din, weft_tensor less, weft_tensor more)
{
    formula f = begin(b, call, phase);
    for (uint32_t i = 0; i < 2; i++)
        if (wanted(&f, i)) {
            weft_tensor second = term(&f, "less", less, more), zero = number(&f, 0);
            din[i] = i ? choose(&f, call->dout[0], zero, second)
                       : choose(&f, zero, call->dout[0], second);
        }
    return f.st;
}

static weft_status min_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    return choice_grad(self->b, call, phase, din, call->in[1], call->in[0]);
}

static weft_status max_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    return choice_grad(self->b, call, phase, din, call->in[0], call->in[1]);
}

/* dy / 2y */
static weft_status sqrt_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = term(&f, "div", call->dout[0], term(&f, "add", call->out[0], call->out[0]));
    return f.st;
}

static weft_status abs_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = term(&f, "mul", call->dout[0], term(&f, "sign", call->in[0], 0));
    return f.st;
}

static weft_status exp_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = term(&f, "mul", call->dout[0], call->out[0]);
    return f.st;
}

static weft_status log_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0))
        din[0] = term(&f, "div", call->dout[0], call->in[0]);
    return f.st;
}

/* y = a^c: dy c a^(c-1), and dy y log a */
static weft_status pow_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    weft_tensor a = call->in[0], c = call->in[1], dy = call->dout[0];
    if (wanted(&f, 0)) {
        weft_tensor power = term(&f, "pow", a, term(&f, "sub", c, number(&f, 1)));
        din[0] = term(&f, "mul", dy, term(&f, "mul", c, power));
    }
    if (wanted(&f, 1))
        din[1] = term(&f, "mul", dy, term(&f, "mul", call->out[0], term(&f, "log", a, 0)));
    return f.st;
}

/* -dy sin a, with the sine as a phase-shifted cosine */
static weft_status cos_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    if (wanted(&f, 0)) {
        weft_tensor quarter = number(&f, 1.57079632679489661923);
        weft_tensor minus_sine = term(&f, "cos", term(&f, "add", call->in[0], quarter), 0);
        din[0] = term(&f, "mul", call->dout[0], minus_sine);
    }
    return f.st;
}

static weft_status select_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                               weft_tensor *din)
{
    formula f = begin(self->b, call, phase);
    for (uint32_t i = 0; i < 2; i++)
        if (wanted(&f, i)) {
            weft_tensor zero = number(&f, 0), dy = call->dout[0];
            din[i] = choose(&f, i ? zero : dy, i ? dy : zero, call->in[2]);
        }
    return f.st;
}

/* Constant almost everywhere. */
static weft_status flat_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                             weft_tensor *din)
{
    (void)self->b, (void)call, (void)phase, (void)din;
    return WEFT_OK;
}

/* --- Partial sums: ops that are linear in them pass them on --- */

static weft_status same_shard(const weft_op_self *self, const weft_opcall *call,
                              const char *mesh_axis, uint32_t size, const weft_place *in,
                              weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "a"});
}

static weft_status sum_shard(const weft_op_self *self, const weft_opcall *call,
                             const char *mesh_axis, uint32_t size, const weft_place *in,
                             weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "ab"});
}

static weft_status mul_shard(const weft_op_self *self, const weft_opcall *call,
                             const char *mesh_axis, uint32_t size, const weft_place *in,
                             weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "aa"});
}

static weft_status select_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)mesh_axis;
    (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "ab-"});
}

#define EW_IN1 "a:c*A"
#define EW_IN2 EW_IN1 " b:c*A"
#define EW_IN3 EW_IN2 " c:c*A"
#define EW(word, code, arity, gradient, sharding, text)                                            \
    OP(word, text, DOC(.operands = EW_IN##arity, .results = "y:c*A"),                              \
       .flags = WEFT_OP_ELEMENTWISE, .ew = WEFT_EW_##code, .in_place = 1, .infer = infer##arity,   \
       .grad = gradient, .shard = sharding)

const weft_component op_elementwise[] = {
    EW("copy", COPY, 1, copy_grad, same_shard, "y = a"),
    EW("neg", NEG, 1, neg_grad, same_shard, "y = -a"),
    EW("add", ADD, 2, add_grad, sum_shard, "y = a + b"),
    EW("sub", SUB, 2, sub_grad, sum_shard, "y = a - b"),
    EW("mul", MUL, 2, mul_grad, mul_shard, "y = a b"),
    EW("div", DIV, 2, div_grad, same_shard, "y = a / b"), /* linear in the numerator */
    EW("min", MIN, 2, min_grad, NULL, "y = the smaller of a and b"),
    EW("max", MAX, 2, max_grad, NULL, "y = the larger of a and b"),
    EW("sqrt", SQRT, 1, sqrt_grad, NULL, "y = the square root of a"),
    EW("abs", ABS, 1, abs_grad, NULL, "y = |a|"),
    EW("sign", SIGN, 1, flat_grad, NULL, "y = -1, 0 or 1, the sign of a"),
    EW("exp", EXP, 1, exp_grad, NULL, "y = e^a"),
    EW("log", LOG, 1, log_grad, NULL, "y = the natural logarithm of a"),
    EW("pow", POW, 2, pow_grad, NULL, "y = a^b"),
    EW("select", SELECT, 3, select_grad, select_shard, "y = a where c is not 0, else b"),
    EW("less", LESS, 2, flat_grad, NULL, "y = 1 where a < b, else 0"),
    EW("finite", FINITE, 1, flat_grad, NULL, "y = 1 where a is neither infinite nor a NaN, else 0"),
    EW("cos", COS, 1, cos_grad, NULL, "y = the cosine of a, in radians"),
    EW("round", ROUND, 1, flat_grad, NULL, "y = the whole number nearest to a, ties to even"),
    EW("floor", FLOOR, 1, flat_grad, NULL, "y = the largest whole number that is not above a"),
};
