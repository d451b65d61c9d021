/* rename.c: other axes over the same numbers: the data are unchanged.
 *
 *   rename   x [A.., n, B..] -> y [A.., m, B..]                 n = m: another name
 *   merge    x [A.., outer, inner, B..] -> y [A.., n, B..]      n = outer * inner
 *   unmerge  x [A.., n, B..] -> y [A.., outer, inner, B..]      "size" is the size of inner
 *
 * Axes are matched by name, and two axes of a tensor have different names. The product of a matrix
 * with its own transpose therefore needs the matrix under two names. An op that takes one axis
 * where a tensor has two, as heads and head_dim, needs them merged. The key of an attribute is the
 * name of a new axis, its number that of the axis in y: {"rows2", 0}; unmerge has outer, then
 * inner.
 *
 * Splits are passed on. Elements are in row-major order, so a part of n is a part of outer, where
 * the mesh axis divides outer, and a part of inner only where outer has one element. Any other
 * split of the two is refused. */
#include <string.h>

#include "builtin.h"

static weft_status rename_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    if (nin != 1 || nattr != 1 || attrs[0].i < 0 || attrs[0].i >= (int64_t)in[0].rank)
        return op_fail(self->b, WEFT_USAGE,
                       "it takes one tensor and one attribute: the axis's new name as key, "
                       "its number as value");
    const weft_status st = op_one_result(self->b, nout);
    if (st != WEFT_OK)
        return st;
    out[0] = in[0];
    out[0].axes[attrs[0].i].name = attrs[0].key;
    for (uint32_t i = 0; i < in[0].rank; i++)
        if ((int64_t)i != attrs[0].i && !strcmp(in[0].axes[i].name, attrs[0].key))
            return op_fail(self->b, WEFT_USAGE, "the tensor has an axis '%s' already",
                           attrs[0].key);
    return WEFT_OK;
}

/* No two axes of an output have one name. */
static weft_status check_names(const weft_builder *b, const weft_shape *s)
{
    char text[OP_TEXT];
    for (uint32_t i = 0; i < s->rank; i++)
        if (weft_shard_axis(s, s->axes[i].name) != (int)i)
            return op_fail(b, WEFT_USAGE, "%s would have two axes '%s'", op_shape_text(s, text),
                           s->axes[i].name);
    return WEFT_OK;
}

static weft_status merge_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                               const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    if (nin != 1 || nattr != 1 || attrs[0].i < 0 || attrs[0].i + 1 >= (int64_t)in[0].rank)
        return op_fail(self->b, WEFT_USAGE,
                       "it takes one tensor and one attribute: the new axis's name as "
                       "key, and as value the number of the first of the two axes that "
                       "become one");
    const uint32_t at = (uint32_t)attrs[0].i;
    const weft_status st = op_one_result(self->b, nout);
    if (st != WEFT_OK)
        return st;
    out[0] = in[0];
    out[0].rank--;
    out[0].axes[at] = (weft_axis){attrs[0].key, in[0].axes[at].size * in[0].axes[at + 1].size};
    for (uint32_t i = at + 1; i < out[0].rank; i++)
        out[0].axes[i] = in[0].axes[i + 1];
    return check_names(self->b, out);
}

static weft_status unmerge_infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                                 const weft_shape *in, uint32_t nin, weft_shape *out,
                                 uint32_t *nout)
{
    char text[OP_TEXT];
    if (nin != 1 || nattr != 3 || strcmp(attrs[2].key, "size") || attrs[2].i < 1 ||
        attrs[1].i != attrs[0].i + 1 || attrs[0].i < 0 || attrs[0].i >= (int64_t)in[0].rank)
        return op_fail(self->b, WEFT_USAGE,
                       "it takes one tensor and three attributes: the names of the "
                       "outer and of the inner axis as keys with their numbers as values, "
                       "which follow one another, and 'size', that of the inner axis");
    const uint32_t at = (uint32_t)attrs[0].i;
    op_shape_text(&in[0], text);
    if (in[0].rank == WEFT_MAX_AXES)
        return op_fail(self->b, WEFT_USAGE, "%s has no room for another axis", text);
    if (in[0].axes[at].size % attrs[2].i)
        return op_fail(self->b, WEFT_USAGE, "size = %lld does not divide '%s' of %s",
                       (long long)attrs[2].i, in[0].axes[at].name, text);
    const weft_status st = op_one_result(self->b, nout);
    if (st != WEFT_OK)
        return st;
    out[0] = in[0];
    out[0].rank++;
    for (uint32_t i = in[0].rank; i > at + 1; i--)
        out[0].axes[i] = in[0].axes[i - 1];
    out[0].axes[at] = (weft_axis){attrs[0].key, in[0].axes[at].size / attrs[2].i};
    out[0].axes[at + 1] = (weft_axis){attrs[1].key, attrs[2].i};
    return check_names(self->b, out);
}

/* --- gradients --- */

/* The shape of the input, where its gradient is asked for. */
static bool wanted(const weft_builder *b, const weft_opcall *call, uint32_t phase, weft_shape *was,
                   weft_status *st)
{
    *st = WEFT_OK;
    if (call->dout[0] && op_expects(b, call, 0, phase))
        *st = b->shape(b->ctx, call->in[0], was);
    else
        return false;
    return *st == WEFT_OK;
}

static weft_status back(const weft_builder *b, const char *id, const weft_attr *attrs,
                        uint32_t nattr, const weft_opcall *call, weft_tensor *din)
{
    return b->op(b->ctx, id, attrs, nattr, &call->dout[0], 1, 0, &din[0], 1);
}

static weft_status rename_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                               weft_tensor *din)
{
    weft_shape was;
    weft_status st;
    if (!wanted(self->b, call, phase, &was, &st))
        return st;
    const int64_t at = call->attrs[0].i;
    const weft_attr attr = WEFT_ATTR_INT(was.axes[at].name, at);
    return back(self->b, "rename", &attr, 1, call, din);
}

static weft_status merge_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                              weft_tensor *din)
{
    weft_shape was;
    weft_status st;
    if (!wanted(self->b, call, phase, &was, &st))
        return st;
    const int64_t at = call->attrs[0].i;
    const weft_attr attrs[] = {WEFT_ATTR_INT(was.axes[at].name, at),
                               WEFT_ATTR_INT(was.axes[at + 1].name, at + 1),
                               WEFT_ATTR_INT("size", was.axes[at + 1].size)};
    return back(self->b, "unmerge", attrs, 3, call, din);
}

static weft_status unmerge_grad(const weft_op_self *self, const weft_opcall *call, uint32_t phase,
                                weft_tensor *din)
{
    weft_shape was;
    weft_status st;
    if (!wanted(self->b, call, phase, &was, &st))
        return st;
    const int64_t at = call->attrs[0].i;
    const weft_attr attr = WEFT_ATTR_INT(was.axes[at].name, at);
    return back(self->b, "merge", &attr, 1, call, din);
}

/* --- placements --- */

static weft_status rename_shard(const weft_op_self *self, const weft_opcall *call,
                                const char *mesh_axis, uint32_t size, const weft_place *in,
                                weft_place *out)
{
    (void)mesh_axis;
    (void)self->b, (void)call, (void)size;
    out[0] = in[0];
    return WEFT_OK;
}

/* Which of the two axes from `at` on in `s` has the parts of the merged one. */
static weft_status part_of(const weft_builder *b, const char *id, const weft_shape *s, uint32_t at,
                           uint32_t size, uint32_t *axis)
{
    char text[OP_TEXT];
    *axis = s->axes[at].size == 1 ? at + 1 : at;
    if (s->axes[*axis].size % size == 0)
        return WEFT_OK;
    return op_fail(b, WEFT_UNSUPPORTED,
                   "%s: %u parts of '%s' and '%s' of %s as one axis are not whole elements of "
                   "'%s'",
                   id, size, s->axes[at].name, s->axes[at + 1].name, op_shape_text(s, text),
                   s->axes[*axis].name);
}

static weft_status merge_shard(const weft_op_self *self, const weft_opcall *call,
                               const char *mesh_axis, uint32_t size, const weft_place *in,
                               weft_place *out)
{
    const uint32_t at = (uint32_t)call->attrs[0].i;
    weft_shape s;
    uint32_t axis;
    (void)mesh_axis;
    out[0] = in[0];
    if (in[0].kind != WEFT_SPLIT || in[0].axis < at)
        return WEFT_OK;
    out[0].axis = in[0].axis > at + 1 ? in[0].axis - 1 : at;
    if (in[0].axis > at + 1)
        return WEFT_OK;
    weft_status st = self->b->shape(self->b->ctx, call->in[0], &s);
    if (st == WEFT_OK)
        st = part_of(self->b, "merge", &s, at, size, &axis);
    if (st == WEFT_OK && axis != in[0].axis)
        st = op_fail(self->b, WEFT_UNSUPPORTED,
                     "merge: parts of the inner axis '%s' are no consecutive parts of both",
                     s.axes[in[0].axis].name);
    return st;
}

static weft_status unmerge_shard(const weft_op_self *self, const weft_opcall *call,
                                 const char *mesh_axis, uint32_t size, const weft_place *in,
                                 weft_place *out)
{
    const uint32_t at = (uint32_t)call->attrs[0].i;
    weft_shape s;
    (void)mesh_axis;
    out[0] = in[0];
    if (in[0].kind != WEFT_SPLIT || in[0].axis < at)
        return WEFT_OK;
    out[0].axis = in[0].axis + 1;
    if (in[0].axis > at)
        return WEFT_OK;
    weft_status st = self->b->shape(self->b->ctx, call->out[0], &s);
    return st == WEFT_OK ? part_of(self->b, "unmerge", &s, at, size, &out[0].axis) : st;
}

#define COPY .flags = WEFT_OP_ELEMENTWISE, .ew = WEFT_EW_COPY, .in_place = 1

const weft_component op_rename[] = {
    OP("rename", "y = x, of which one axis has another name",
       DOC(.operands = "x:x*A", .results = "y:x*A",
           .attributes =
               "*renamed int - the key is the new name, the value the number of the axis"),
       COPY, .infer = rename_infer, .grad = rename_grad, .shard = rename_shard),
    OP("merge", "y = x, of which two neighbouring axes are one of as many elements",
       DOC(.operands = "x:x*AQR*F", .results = "y:x*AP*F",
           .attributes = "*merged int - the key is the name of the new axis, the value its "
                         "number, that of the first of the two"),
       COPY, .infer = merge_infer, .grad = merge_grad, .shard = merge_shard),
    OP("unmerge", "y = x, of which one axis is two: the converse of merge",
       DOC(.operands = "x:x*AP*F", .results = "y:x*AQR*F",
           .attributes = "*outer int - the key is the name of the first, the value its "
                         "number; *inner int - of the second; size int -R elements of the "
                         "second"),
       COPY, .infer = unmerge_infer, .grad = unmerge_grad, .shard = unmerge_shard),
};
