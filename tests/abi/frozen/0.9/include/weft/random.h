/* weft/random.h: random numbers and dropout in formulas (weft/expr.h).
 *
 * Numbers come from a counter-based generator, Philox4x32-10 (Salmon et al., 2011): a number
 * depends only on run.seed, the stream, the time and the index of its element in the whole tensor,
 * and on no state. So numbers are the same on every layout, when an activation is recomputed and in
 * a resumed run.
 *
 * Streams. Ops with equal streams draw equal numbers, so each op of a graph has a stream of its
 * own: builder.op() refuses a second one with WEFT_USAGE, except in a gradient, which may draw the
 * numbers of its op again. A layer that is built several times puts its number into the name.
 *
 * Time makes each use draw fresh numbers:
 *   weft_first_token()            for tensors [tokens, ...]: in models and replacements
 *   builder.scalar() "step"       for tensors without tokens: there, in rules and in lists
 *
 * In a rule each parameter draws numbers of its own; a rule of WEFT_UNIT_ELEMENT (optim.h) cannot
 * draw. Where a placement shards the parameter, each rank gathers `like` and draws all numbers.
 *
 * This is noise on an activation in a replacement:
 *
 *   weft_tensor n = weft_random(&e, WEFT_NORMAL, "acme.noise", weft_first_token(&e), x);
 *   weft_tensor y = weft_op2(&e, "add", x, weft_scale(&e, n, 0.01));
 *
 * `n` is fp32: where x is not, weft_cast() comes between. A model that builds a graph for
 * evaluation or sampling leaves dropout out there. Nothing here allocates. All [plan], except
 * weft_stream_of().
 */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include <weft/expr.h>

WEFT_EXTERN_C_BEGIN

/* The number of the stream called `name`: FNV-1a, 64 bits. [any] */
static inline int64_t weft_stream_of(const char *name)
{
    uint64_t h = 14695981039346656037ull;
    for (; *name; name++)
        h = (h ^ (uint64_t)(unsigned char)*name) * 1099511628211ull;
    return (int64_t)h;
}

/* The input "first_token" (builder.input). */
static inline weft_tensor weft_first_token(weft_expr *e)
{
    const weft_shape scalar = {WEFT_I64, 0, 0, 0, {{NULL, 0}}};
    const weft_input_args args = {sizeof args, 0, "first_token", &scalar};
    weft_tensor out = 0;
    if (e->st == WEFT_OK)
        e->st = e->b->input(e->b->ctx, &args, &out);
    return out;
}

/* The distributions: uniform in [0, 1); normal with mean 0 and deviation 1. */
#define WEFT_UNIFORM 0
#define WEFT_NORMAL 1

/* A tensor of the axes of `like`, fp32, of random numbers. Of `like` only the shape is used, and
 * the numbers have no gradient. `time`: see above. An unknown distribution is WEFT_UNSUPPORTED. */
static inline weft_tensor weft_random(weft_expr *e, int64_t distribution, const char *stream,
                                      weft_tensor time, weft_tensor like)
{
    const weft_attr attrs[] = {WEFT_ATTR_INT("stream", weft_stream_of(stream)),
                               WEFT_ATTR_INT("distribution", distribution)};
    const weft_tensor in[] = {time, like};
    return weft_op_with(e, "random", attrs, 2, in, 2);
}

/* x [tokens, ...] with each element set to 0 with probability p, and divided by 1 - p otherwise;
 * 0 <= p < 1. Its gradient draws the same numbers again; nothing is stored. */
static inline weft_tensor weft_dropout(weft_expr *e, weft_tensor x, double p, const char *stream)
{
    const weft_attr attrs[] = {WEFT_ATTR_INT("stream", weft_stream_of(stream)),
                               WEFT_ATTR_REAL("p", p)};
    const weft_tensor in[] = {x, weft_first_token(e)};
    return weft_op_with(e, "dropout", attrs, 2, in, 2);
}

WEFT_EXTERN_C_END

#endif
