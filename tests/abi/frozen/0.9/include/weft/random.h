#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H
#include <weft/expr.h>
WEFT_EXTERN_C_BEGIN
static inline int64_t weft_stream_of(const char *name)
{
    uint64_t h = 14695981039346656037ull;
    for (; *name; name++)
        h = (h ^ (uint64_t)(unsigned char)*name) * 1099511628211ull;
    return (int64_t)h;
}
static inline weft_tensor weft_first_token(weft_expr *e)
{
    const weft_shape scalar = {WEFT_I64, 0, 0, 0, {{NULL, 0}}};
    const weft_input_args args = {sizeof args, 0, "first_token", &scalar};
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->input(e->b->ctx, &args, &out);
    return out;
}
#define WEFT_UNIFORM 0
#define WEFT_NORMAL 1
static inline weft_tensor weft_random(weft_expr *e, int64_t distribution, const char *stream,
                                      weft_tensor time, weft_tensor like)
{
    const weft_attr attrs[] = {WEFT_ATTR_INT("stream", weft_stream_of(stream)),
                               WEFT_ATTR_INT("distribution", distribution)};
    const weft_tensor in[] = {time, like};
    return weft_op_with(e, "random", attrs, 2, in, 2);
}
static inline weft_tensor weft_dropout(weft_expr *e, weft_tensor x, double p, const char *stream)
{
    const weft_attr attrs[] = {WEFT_ATTR_INT("stream", weft_stream_of(stream)),
                               WEFT_ATTR_REAL("p", p)};
    const weft_tensor in[] = {x, weft_first_token(e)};
    return weft_op_with(e, "dropout", attrs, 2, in, 2);
}
WEFT_EXTERN_C_END
#endif
