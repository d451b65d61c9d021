/* weft/expr.h: formulas written with the graph builder, for update rules and replacements.
 *
 * A formula reads like the one in the paper. This is gradient descent with momentum:
 *
 *   weft_expr e = {b, WEFT_OK};
 *   weft_tensor v = weft_state(&e, "v", u->param);
 *   weft_tensor next = weft_op2(&e, "add", weft_scale(&e, v, 0.9), u->grad);
 *   weft_assign(&e, v, next);
 *   weft_tensor step = weft_op2(&e, "mul", next, u->lr);
 *   weft_assign(&e, u->param, weft_op2(&e, "sub", u->param, step));
 *   return e.st;
 *
 * Errors. After the first failure every further call does nothing and returns the tensor 0; `st`
 * keeps the first status, and the builder has recorded the reason. Test `st` once, at the end.
 *
 * Elementwise ops, in fp32, with their operands in order:
 *
 *   add x y   x + y        sqrt x   square root        less x y      1 where x < y, else 0
 *   sub x y   x - y        exp x    e to the x         select x y c  x where c is not 0, else y
 *   mul x y   x * y        log x    natural logarithm  sign x        -1, 0 or 1
 *   div x y   x / y        neg x    -x                 abs x         |x|
 *   max x y   the larger   min x y  the smaller        pow x y       x to the y
 *   round x   to the nearest whole number, ties to even; floor x to the next smaller one
 *
 * Others: "sumsq" x is the sum of all squares, one element; "linear" x w is the product of x [rows,
 * in] and w transposed [out, in]; "bmm" x w is the same for each index of leading axes that both
 * have: x [batch.., rows, in], w [batch.., out, in]; "rename" gives an axis another name,
 * "merge" makes two neighbouring axes one and "unmerge" one axis two.
 *
 * Along one axis, which is named by an attribute: its name is the key, its number the value. The
 * functions below find the number.
 *
 *   sum_axis x         the sum over the axis, which the result does not have
 *   max_axis x         the maximum over it
 *   broadcast x like   x repeated along an axis that `like` has and x has not; of
 *                      `like` only the shape is used
 *   repeat x           the same along a new axis; the attribute "size" is its size
 *
 * "cast" x converts to another element type, by the attribute "dtype": WEFT_F32, BF16, F16, I32 or
 * U8. 16-bit types round to nearest even; WEFT_I32 and WEFT_U8 round to the nearest whole number,
 * ties to even, and saturate, with NaN as 0. It is no elementwise op: operands of those are
 * floating point. Random numbers and dropout: weft/random.h.
 *
 * Shapes. Operands have the same shape, or one element, which is broadcast. The core completes a
 * sum of squares over a sharded tensor over the ranks.
 *
 * Nothing here allocates or keeps state between calls. Call the functions while planning, inside
 * the call that passed the builder. All [plan].
 */
#ifndef WEFT_EXPR_H
#define WEFT_EXPR_H

#include <weft/graph.h>

WEFT_EXTERN_C_BEGIN

/* A formula under construction: the builder, and the first failure. The caller sets both, as {b,
 * WEFT_OK}. */
typedef struct weft_expr {
    const weft_builder *b;
    weft_status st;
} weft_expr;

/* An op with attributes and `nin` inputs; the result is its one output. */
static inline weft_tensor weft_op_with(weft_expr *e, const char *id, const weft_attr *attrs,
                                       uint32_t nattr, const weft_tensor *in, uint32_t nin)
{
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->op(e->b->ctx, id, attrs, nattr, in, nin, 0, &out, 1);
    return out;
}

/* An op with one input and no attributes: "sqrt". */
static inline weft_tensor weft_op1(weft_expr *e, const char *id, weft_tensor x)
{
    return weft_op_with(e, id, NULL, 0, &x, 1);
}

/* Two inputs: "add". */
static inline weft_tensor weft_op2(weft_expr *e, const char *id, weft_tensor x, weft_tensor y)
{
    const weft_tensor in[] = {x, y};
    return weft_op_with(e, id, NULL, 0, in, 2);
}

/* Three inputs: "select", which takes the condition last: x where z is not 0, else y. */
static inline weft_tensor weft_op3(weft_expr *e, const char *id, weft_tensor x, weft_tensor y,
                                   weft_tensor z)
{
    const weft_tensor in[] = {x, y, z};
    return weft_op_with(e, id, NULL, 0, in, 3);
}

/* A constant: a tensor of one element. */
static inline weft_tensor weft_number(weft_expr *e, double value)
{
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->constant(e->b->ctx, value, 0, &out);
    return out;
}

/* A state with any type, axes and initial value (weft_state_args): a row of factored moments is
 *   weft_state_of(&e, &(weft_state_args){sizeof(weft_state_args), .name = "r", .like = u->param,
 *                                        .keep = shape.axes[0].name}) */
static inline weft_tensor weft_state_of(weft_expr *e, const weft_state_args *args)
{
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->state(e->b->ctx, args, &out);
    return out;
}

/* State of the shape of `like`, in fp32, zero at the start. */
static inline weft_tensor weft_state(weft_expr *e, const char *name, weft_tensor like)
{
    const weft_state_args args = {sizeof args, 0, name, like, 0, 0, NULL, NULL, NULL};
    return weft_state_of(e, &args);
}

/* Assign `value` to `to` at the end of the step (builder.assign): all other ops of the step read
 * the old value. */
static inline void weft_assign(weft_expr *e, weft_tensor to, weft_tensor value)
{
    if (e->st == WEFT_OK)
        e->st = e->b->assign(e->b->ctx, to, value, 0);
}

/* x times a constant factor */
static inline weft_tensor weft_scale(weft_expr *e, weft_tensor x, double factor)
{
    return weft_op2(e, "mul", x, weft_number(e, factor));
}

/* The number of the axis `name` in x; -1, which every op refuses, if it has none. */
static inline int64_t weft_axis_number(weft_expr *e, weft_tensor x, const char *name)
{
    weft_shape s;
    s.rank = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->shape(e->b->ctx, x, &s);
    for (uint32_t i = 0; e->st == WEFT_OK && i < s.rank; i++) {
        uint32_t k = 0;
        while (name[k] && name[k] == s.axes[i].name[k])
            k++;
        if (name[k] == s.axes[i].name[k])
            return i;
    }
    return -1;
}

/* The sum and the maximum of x over its axis `name`. */
static inline weft_tensor weft_sum_axis(weft_expr *e, weft_tensor x, const char *name)
{
    const weft_attr axis = WEFT_ATTR_INT(name, weft_axis_number(e, x, name));
    return weft_op_with(e, "sum_axis", &axis, 1, &x, 1);
}

static inline weft_tensor weft_max_axis(weft_expr *e, weft_tensor x, const char *name)
{
    const weft_attr axis = WEFT_ATTR_INT(name, weft_axis_number(e, x, name));
    return weft_op_with(e, "max_axis", &axis, 1, &x, 1);
}

/* The mean of x over its axis `name`. */
static inline weft_tensor weft_mean_axis(weft_expr *e, weft_tensor x, const char *name)
{
    weft_shape s;
    const int64_t number = weft_axis_number(e, x, name);
    const weft_tensor sum = weft_sum_axis(e, x, name);
    if (e->st == WEFT_OK)
        e->st = e->b->shape(e->b->ctx, x, &s);
    return weft_scale(e, sum, e->st == WEFT_OK ? 1.0 / (double)s.axes[number].size : 0);
}

/* x, which lacks the axis `name` of `like`, repeated along it. */
static inline weft_tensor weft_broadcast(weft_expr *e, weft_tensor x, weft_tensor like,
                                         const char *name)
{
    const weft_tensor in[] = {x, like};
    const weft_attr axis = WEFT_ATTR_INT(name, weft_axis_number(e, like, name));
    return weft_op_with(e, "broadcast", &axis, 1, in, 2);
}

/* x repeated along a new axis of `size` elements, which is number `number` of the result. */
static inline weft_tensor weft_repeat(weft_expr *e, weft_tensor x, const char *name, int64_t number,
                                      int64_t size)
{
    const weft_attr axis[] = {WEFT_ATTR_INT(name, number), WEFT_ATTR_INT("size", size)};
    return weft_op_with(e, "repeat", axis, 2, &x, 1);
}

/* The nearest whole number, ties to even, and the next smaller one. */
static inline weft_tensor weft_round(weft_expr *e, weft_tensor x)
{
    return weft_op1(e, "round", x);
}

static inline weft_tensor weft_floor(weft_expr *e, weft_tensor x)
{
    return weft_op1(e, "floor", x);
}

/* x as another element type (WEFT_U8): see "cast" above. */
static inline weft_tensor weft_cast(weft_expr *e, weft_tensor x, uint32_t dtype)
{
    const weft_attr to = WEFT_ATTR_INT("dtype", dtype);
    return weft_op_with(e, "cast", &to, 1, &x, 1);
}

/* The Euclidean norm of a whole tensor, one element. The rule's unit is then WEFT_UNIT_TENSOR or
 * WEFT_UNIT_MATRIX (optim.h), since a part of a parameter has another norm. */
static inline weft_tensor weft_norm(weft_expr *e, weft_tensor x)
{
    return weft_op1(e, "sqrt", weft_op1(e, "sumsq", x));
}

WEFT_EXTERN_C_END

#endif
