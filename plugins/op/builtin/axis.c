/* axis.c: sums, maxima and broadcasts along one axis.
 *
 *   sum_axis   x [A.., n, B..] -> y [A.., B..]              the sum over n
 *   max_axis   x [A.., n, B..] -> y [A.., B..]              the maximum over n
 *   broadcast  x [A.., B..], like [A.., n, B..] -> y like   x at every index of n
 *   repeat     x [A.., B..] -> y [A.., n, B..]              the same; "size" is the size of n
 *
 * The axis is named by an attribute: its name is the key, its number (in x, or in y of the last
 * two) the value: {"ffn", 1}. A device knows sizes but no names; it goes by the number, which is
 * the same on every rank. Any axis of any tensor will do; the last one of a vector leaves one
 * number.
 *
 * Split along n, a sum is a partial sum and a maximum a partial maximum. The gradient of a sum is a
 * broadcast and conversely. That of a maximum is divided equally among the elements that have it: a
 * choice of one of them would depend on how the axis is split. */
#include <string.h>

#include "builtin.h"

/* The attribute that names the axis: the one that is not "size". */
static const weft_attr *axis_attr(const weft_attr *attrs, uint32_t nattr)
{
    const weft_attr *found = NULL;
    for (uint32_t i = 0; i < nattr; i++)
        if (strcmp(attrs[i].key, "size"))
            found = &attrs[i];
    return found;
}

static weft_status usage(const weft_builder *b, uint32_t nin, bool size)
{
    return op_fail(b, WEFT_USAGE,
                   "it takes %s and the attribute that names the axis: its name as key, its "
                   "number as value%s",
                   nin > 1 ? "two tensors" : "one tensor",
                   size ? "; and the attribute 'size'" : "");
}

/* Checks the number of operands and attributes, and that axis `attr->i` of `s` has the name. */
static weft_status check(const weft_builder *b, const weft_attr *attrs, uint32_t nattr,
                         uint32_t nin, uint32_t want, const weft_shape *s)
{
    const weft_attr *a = axis_attr(attrs, nattr);
    char text[OP_TEXT];
    if (nin != want || nattr != 1 || !a)
        return usage(b, want, false);
    if (a->i >= 0 && a->i < (int64_t)s->rank && !strcmp(s->axes[a->i].name, a->key))
        return WEFT_OK;
    return op_fail(b, WEFT_USAGE, "axis %lld of %s is not '%s'", (long long)a->i,
                   op_shape_text(s, text), a->key);
}

static weft_shape without(const weft_shape *s, int64_t axis)
{
    weft_shape r = *s;
    r.rank--;
    for (uint32_t i = (uint32_t)axis; i < r.rank; i++)
        r.axes[i] = s->axes[i + 1];
    return r;
}

static weft_status reduce_infer(const weft_builder *b, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    char text[OP_TEXT];
    weft_status st = check(b, attrs, nattr, nin, 1, &in[0]);
    if (st == WEFT_OK && !op_is_float(in[0].dtype))
        st = op_fail(b, WEFT_USAGE, "it works on floating point, not on %s",
                     op_shape_text(&in[0], text));
    if (st == WEFT_OK)
        st = op_one_result(b, nout);
    if (st == WEFT_OK)
        out[0] = without(&in[0], attrs[0].i);
    return st;
}

static weft_status sum_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                             const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const weft_builder *b = self->b;
    return reduce_infer(b, attrs, nattr, in, nin, out, nout);
}

static weft_status max_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                             const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const weft_builder *b = self->b;
    return reduce_infer(b, attrs, nattr, in, nin, out, nout);
}

static weft_status broadcast_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                   const weft_shape *in, uint32_t nin, weft_shape *out,
                                   uint32_t *nout)
{
    const weft_builder *b = self->b;
    char x[OP_TEXT], like[OP_TEXT];
    weft_status st = check(b, attrs, nattr, nin, 2, nin > 1 ? &in[1] : &in[0]);
    if (st == WEFT_OK)
        st = op_one_result(b, nout);
    if (st != WEFT_OK)
        return st;
    const weft_shape rest = without(&in[1], attrs[0].i);
    bool fits = rest.rank == in[0].rank;
    for (uint32_t i = 0; fits && i < rest.rank; i++)
        fits = rest.axes[i].size == in[0].axes[i].size &&
               !strcmp(rest.axes[i].name, in[0].axes[i].name);
    if (!fits)
        return op_fail(b, WEFT_USAGE, "%s does not have the axes of %s without '%s'",
                       op_shape_text(&in[0], x), op_shape_text(&in[1], like), attrs[0].key);
    out[0] = in[1];
    out[0].dtype = in[0].dtype;
    return WEFT_OK;
}

static weft_status repeat_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    const weft_builder *b = self->b;
    const weft_attr *a = axis_attr(attrs, nattr);
    const int64_t size = op_attr_i(attrs, nattr, "size", 0);
    char text[OP_TEXT];
    if (nin != 1 || nattr != 2 || !a || size < 1)
        return usage(b, 1, true);
    op_shape_text(&in[0], text);
    if (in[0].rank == WEFT_MAX_AXES || size > INT64_MAX / 64 / op_elements(&in[0]))
        return op_fail(b, WEFT_USAGE, "%s has too many axes or elements for %lld more", text,
                       (long long)size);
    if (a->i < 0 || a->i > (int64_t)in[0].rank || weft_shard_axis(&in[0], a->key) >= 0)
        return op_fail(b, WEFT_USAGE, "%s cannot get the axis '%s' as number %lld", text, a->key,
                       (long long)a->i);
    const weft_status st = op_one_result(b, nout);
    if (st != WEFT_OK)
        return st;
    out[0] = in[0];
    out[0].rank++;
    for (uint32_t i = in[0].rank; i > (uint32_t)a->i; i--)
        out[0].axes[i] = in[0].axes[i - 1];
    out[0].axes[a->i] = (weft_axis){a->key, size};
    return WEFT_OK;
}

/* --- gradients --- */

static weft_status append(const weft_builder *b, const weft_opcall *call, const char *id,
                          weft_tensor x, weft_tensor y, weft_tensor *out)
{
    const weft_attr *a = axis_attr(call->attrs, call->nattr);
    return b->op(b->ctx, id, a, 1, (weft_tensor[]){x, y}, y ? 2 : 1, 0, out, 1);
}

static bool wanted(const weft_builder *b, const weft_opcall *call, uint32_t phase)
{
    return call->dout[0] && op_expects(b, call, 0, phase);
}

static weft_status sum_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    const weft_builder *b = self->b;
    if (!wanted(b, call, phase))
        return WEFT_OK;
    return append(b, call, "broadcast", call->dout[0], call->in[0], &din[0]);
}

static weft_status broadcast_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                                  weft_tensor *din)
{
    const weft_builder *b = self->b;
    if (!wanted(b, call, phase))
        return WEFT_OK;
    return append(b, call, "sum_axis", call->dout[0], 0, &din[0]);
}

static weft_status two(const weft_builder *b, const char *id, weft_tensor x, weft_tensor y,
                       weft_tensor *out)
{
    return op_append(b, id, (weft_tensor[]){x, y}, 2, out);
}

/* `t` in another type; itself if it has that. */
static weft_status convert(const weft_builder *b, weft_tensor t, uint32_t dtype, weft_tensor *out)
{
    weft_shape s;
    const weft_attr to = WEFT_ATTR_INT("dtype", dtype);
    weft_status st = b->shape(b->ctx, t, &s);
    *out = t;
    return st != WEFT_OK || s.dtype == dtype ? st : b->op(b->ctx, "cast", &to, 1, &t, 1, 0, out, 1);
}

/* 1 where x is its maximum, else 0, and the number of these elements, in fp32. */
static weft_status find_maxima(const weft_builder *b, const weft_opcall *call, weft_tensor *is,
                               weft_tensor *count)
{
    weft_tensor x = call->in[0], max = 0, less = 0, one = 0, exact = 0;
    weft_status st = append(b, call, "broadcast", call->out[0], x, &max);
    if (st == WEFT_OK)
        st = two(b, "less", x, max, &less);
    if (st == WEFT_OK)
        st = b->constant(b->ctx, 1, 0, &one);
    if (st == WEFT_OK)
        st = two(b, "sub", one, less, is);
    if (st == WEFT_OK)
        st = convert(b, *is, WEFT_F32, &exact);
    return st == WEFT_OK ? append(b, call, "sum_axis", exact, 0, count) : st;
}

/* dx = dy / count where x is y, else 0. */
static weft_status max_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                            weft_tensor *din)
{
    const weft_builder *b = self->b;
    weft_tensor is = 0, count = 0, share = 0, all = 0, dx = 0;
    weft_shape x;
    if (!wanted(b, call, phase))
        return WEFT_OK;
    weft_status st = find_maxima(b, call, &is, &count);
    if (st == WEFT_OK)
        st = two(b, "div", call->dout[0], count, &share);
    if (st == WEFT_OK)
        st = append(b, call, "broadcast", share, call->in[0], &all);
    if (st == WEFT_OK)
        st = two(b, "mul", all, is, &dx);
    if (st == WEFT_OK)
        st = b->shape(b->ctx, call->in[0], &x);
    return st == WEFT_OK ? convert(b, dx, x.dtype, &din[0]) : st;
}

/* --- placements --- */

static weft_status sum_shard(const weft_op_self *self, const weft_opcall *call,
                             const char *mesh_axis, uint32_t size, const weft_place *in,
                             weft_place *out)
{
    (void)mesh_axis, (void)size;
    return weft_shard(self->b, call, in, out, &(weft_shard_rule){.terms = "a", .sums = 1});
}

/* Maxima of partial maxima are partial maxima. */
static weft_status max_shard(const weft_op_self *self, const weft_opcall *call,
                             const char *mesh_axis, uint32_t size, const weft_place *in,
                             weft_place *out)
{
    (void)mesh_axis, (void)size;
    out[0] = in[0];
    if (in[0].kind == WEFT_PARTIAL_MAX)
        return WEFT_OK;
    weft_status st = weft_shard(self->b, call, in, out, &(weft_shard_rule){.sums = 1});
    if (st == WEFT_OK && out[0].kind == WEFT_PARTIAL_SUM)
        out[0].kind = WEFT_PARTIAL_MAX;
    return st;
}

/* Partial results are passed on. Of `like` only a split counts, which the result follows. */
static weft_status broadcast_shard(const weft_op_self *self, const weft_opcall *call,
                                   const char *mesh_axis, uint32_t size, const weft_place *in,
                                   weft_place *out)
{
    weft_place place[2] = {in[0]};
    (void)mesh_axis, (void)size;
    if (call->nin > 1 && in[1].kind == WEFT_SPLIT)
        place[1] = in[1];
    out[0] = in[0];
    if (in[0].kind == WEFT_PARTIAL_MAX && place[1].kind == WEFT_WHOLE)
        return WEFT_OK;
    return weft_shard(self->b, call, place, out, &(weft_shard_rule){.terms = "a-"});
}

#define AXIS_DOC "*along int - the key is the name of the axis, the value its number"

const weft_component op_axis[] = {
    OP("sum_axis", "y = the sum of x along one axis",
       DOC(.operands = "x:cN*A", .results = "y:c*A", .attributes = AXIS_DOC),
       .flags = WEFT_OP_ACCUMULATES, .infer = sum_infer, .grad = sum_grad, .shard = sum_shard),
    OP("max_axis", "y = the maximum of x along one axis",
       DOC(.operands = "x:cN*A", .results = "y:c*A", .attributes = AXIS_DOC), .infer = max_infer,
       .grad = max_grad, .shard = max_shard),
    OP("broadcast", "y = x at every index of an axis that like has and x has not",
       DOC(.operands = "x:x*A like:xN*A", .results = "y:xN*A", .attributes = AXIS_DOC),
       .flags = WEFT_OP_SHAPE_LAST, .infer = broadcast_infer, .grad = broadcast_grad,
       .shard = broadcast_shard),
    OP("repeat", "y = x at every index of a new axis",
       DOC(.operands = "x:x*A", .results = "y:xN*A",
           .attributes = AXIS_DOC "; size int -N elements of the new axis"),
       .infer = repeat_infer, .grad = broadcast_grad, .shard = broadcast_shard),
};
