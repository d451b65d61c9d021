#ifndef WEFT_EXPR_H
#define WEFT_EXPR_H
#include <weft/graph.h>
WEFT_EXTERN_C_BEGIN
typedef struct weft_expr {
    const weft_builder *b;
    weft_status st;
} weft_expr;
static inline weft_tensor weft_op_with(weft_expr *e, const char *id, const weft_attr *attrs,
                                       uint32_t nattr, const weft_tensor *in, uint32_t nin)
{
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->op(e->b->ctx, id, attrs, nattr, in, nin, 0, &out, 1);
    return out;
}
static inline weft_tensor weft_op1(weft_expr *e, const char *id, weft_tensor x)
{
    return weft_op_with(e, id, NULL, 0, &x, 1);
}
static inline weft_tensor weft_op2(weft_expr *e, const char *id, weft_tensor x, weft_tensor y)
{
    const weft_tensor in[] = {x, y};
    return weft_op_with(e, id, NULL, 0, in, 2);
}
static inline weft_tensor weft_op3(weft_expr *e, const char *id, weft_tensor x, weft_tensor y,
                                   weft_tensor z)
{
    const weft_tensor in[] = {x, y, z};
    return weft_op_with(e, id, NULL, 0, in, 3);
}
static inline weft_tensor weft_number(weft_expr *e, double value)
{
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->constant(e->b->ctx, value, 0, &out);
    return out;
}
static inline weft_tensor weft_state_of(weft_expr *e, const weft_state_args *args)
{
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->state(e->b->ctx, args, &out);
    return out;
}
static inline weft_tensor weft_state(weft_expr *e, const char *name, weft_tensor like)
{
    const weft_state_args args = {sizeof args, 0, name, like, 0, 0, NULL, NULL, NULL};
    return weft_state_of(e, &args);
}
static inline void weft_assign(weft_expr *e, weft_tensor to, weft_tensor value)
{
    if (e->st == WEFT_OK)
        e->st = e->b->assign(e->b->ctx, to, value, 0);
}
static inline weft_tensor weft_scale(weft_expr *e, weft_tensor x, double factor)
{
    return weft_op2(e, "mul", x, weft_number(e, factor));
}
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
static inline weft_tensor weft_mean_axis(weft_expr *e, weft_tensor x, const char *name)
{
    weft_shape s;
    const int64_t number = weft_axis_number(e, x, name);
    const weft_tensor sum = weft_sum_axis(e, x, name);
    if (e->st == WEFT_OK)
        e->st = e->b->shape(e->b->ctx, x, &s);
    return weft_scale(e, sum, e->st == WEFT_OK ? 1.0 / (double)s.axes[number].size : 0);
}
static inline weft_tensor weft_broadcast(weft_expr *e, weft_tensor x, weft_tensor like,
                                         const char *name)
{
    const weft_tensor in[] = {x, like};
    const weft_attr axis = WEFT_ATTR_INT(name, weft_axis_number(e, like, name));
    return weft_op_with(e, "broadcast", &axis, 1, in, 2);
}
static inline weft_tensor weft_repeat(weft_expr *e, weft_tensor x, const char *name, int64_t number,
                                      int64_t size)
{
    const weft_attr axis[] = {WEFT_ATTR_INT(name, number), WEFT_ATTR_INT("size", size)};
    return weft_op_with(e, "repeat", axis, 2, &x, 1);
}
static inline weft_tensor weft_round(weft_expr *e, weft_tensor x)
{
    return weft_op1(e, "round", x);
}
static inline weft_tensor weft_floor(weft_expr *e, weft_tensor x)
{
    return weft_op1(e, "floor", x);
}
static inline weft_tensor weft_cast(weft_expr *e, weft_tensor x, uint32_t dtype)
{
    const weft_attr to = WEFT_ATTR_INT("dtype", dtype);
    return weft_op_with(e, "cast", &to, 1, &x, 1);
}
static inline weft_tensor weft_norm(weft_expr *e, weft_tensor x)
{
    return weft_op1(e, "sqrt", weft_op1(e, "sumsq", x));
}
WEFT_EXTERN_C_END
#endif
