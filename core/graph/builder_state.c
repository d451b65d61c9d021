/* graph/builder_state.c: the builder's state(): its arguments, its shape, and which of its axes
 * follow the placement of its parameter.
 *
 * An axis of a state follows the axis of the same name of `like`: where that one is split, so is
 * this. An axis with another name is whole everywhere. */
#include "base/err.h"
#include "base/sized.h"
#include "graph/arguments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL "builder.state"

static weft_status check_like(const graph *g, const weft_state_args *x)
{
    weft_status st = graph_check_tensor(g, CALL, "like", x->like);
    if (st != WEFT_OK)
        return st;
    const graph_tensor *like = graph_tensor_at(g, x->like);
    const weft_tensor own = *g->now.state_of ? graph_find(g, g->now.state_of) : x->like;
    const weft_shape *p = own ? &graph_tensor_at(g, own)->shape : NULL;
    const bool fits =
        *g->now.state_of ? p && graph_same_axes(p, &like->shape) : like->kind == WEFT_T_PARAM;
    return fits ? WEFT_OK
                : err_fail(WEFT_USAGE, CALL "(): '%s' is like %s, which is not %s", x->name,
                           like->name,
                           *g->now.state_of ? "the parameter that is updated" : "a parameter");
}

static weft_status check_type(const graph *g, const weft_state_args *x)
{
    const uint32_t d = x->dtype;
    if (!d || weft_dtype_computes(d) ||
        ((d == WEFT_U8 || d == WEFT_I32) && *g->now.state_of && !g->now.by_element))
        return WEFT_OK;
    if (!weft_dtype_size(d))
        return err_fail(WEFT_USAGE, CALL "(): '%s' has the unknown element type %u", x->name, d);
    return err_fail(WEFT_UNSUPPORTED,
                    CALL "(): '%s' has the element type %u; a state is fp32, bf16 or fp16, or, in "
                         "a rule of unit tensor or matrix, u8 or i32",
                    x->name, d);
}

/* Values of the parameter fit a state of its shape and of a type of floats. */
static weft_status check_copy(const graph *g, const weft_state_args *x, const weft_shape *shape)
{
    const weft_shape *like = &graph_tensor_at(g, x->like)->shape;
    return weft_dtype_computes(shape->dtype) && graph_same_axes(shape, like)
               ? WEFT_OK
               : err_fail(WEFT_USAGE,
                          CALL "(): '%s' starts as a copy of its parameter, so it has all of its "
                               "axes in their order and the type fp32, bf16 or fp16",
                          x->name);
}

static weft_status check_init(const graph *g, const weft_state_args *x, const weft_shape *shape)
{
    weft_status st = graph_check_text(CALL, "init", x->init, WEFT_MAX_NAME - 1);
    if (st != WEFT_OK || !strcmp(x->init, "zeros") || !strcmp(x->init, "ones"))
        return st;
    if (!strcmp(x->init, "copy"))
        return check_copy(g, x, shape);
    if (!strcmp(x->init, "eye"))
        return shape->rank == 2 && shape->axes[0].size == shape->axes[1].size
                   ? WEFT_OK
                   : err_fail(WEFT_USAGE, CALL "(): '%s' starts as eye, but is no square matrix",
                              x->name);
    char *end = NULL;
    const double value = strncmp(x->init, "constant:", 9) ? 0 : strtod(x->init + 9, &end);
    if (end && end != x->init + 9 && !*end && isfinite((float)value))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    CALL
                    "(): init of '%s' is '%s'; it must be zeros, ones, copy, eye or constant:X",
                    x->name, x->init);
}

/* The axes of `like` that `keep` names. */
static weft_status kept_shape(const weft_state_args *x, const graph_tensor *like, weft_shape *out)
{
    const weft_shape *whole = &like->shape;
    uint64_t keep = 0;
    const size_t length = strnlen(x->keep, WEFT_MAX_AXES * WEFT_MAX_NAME);
    weft_status st =
        length ? graph_check_text(CALL, "keep", x->keep, WEFT_MAX_AXES * WEFT_MAX_NAME) : WEFT_OK;
    for (const char *p = length ? x->keep : NULL; st == WEFT_OK && p;) {
        const size_t n = strcspn(p, ",");
        const uint32_t i = graph_axis_of(whole, p, n);
        if (i == whole->rank)
            st = err_fail(WEFT_USAGE,
                          CALL "(): keep of '%s' names the axis '%.*s', which %s has not", x->name,
                          n > WEFT_MAX_NAME ? WEFT_MAX_NAME : (int)n, p, like->name);
        else
            keep |= (uint64_t)1 << i;
        p = p[n] ? p + n + 1 : NULL;
    }
    for (uint32_t i = 0; i < whole->rank; i++)
        if (keep >> i & 1)
            out->axes[out->rank++] = whole->axes[i];
    return st;
}

static weft_status own_shape(const weft_state_args *x, const graph_tensor *like, weft_shape *out)
{
    weft_status st = graph_check_shape(CALL, x->name, x->shape);
    for (uint32_t i = 0; st == WEFT_OK && i < x->shape->rank; i++) {
        const weft_axis *a = &x->shape->axes[i];
        const uint32_t k = graph_axis_of(&like->shape, a->name, strlen(a->name));
        if (k < like->shape.rank && like->shape.axes[k].size != a->size)
            st = err_fail(WEFT_USAGE,
                          CALL "(): '%s' has %lld elements along '%s', and %s has %lld: an axis of "
                               "another size needs another name",
                          x->name, (long long)a->size, a->name, like->name,
                          (long long)like->shape.axes[k].size);
        out->axes[out->rank++] = *a;
    }
    return st;
}

static weft_status shape_of(const graph *g, const weft_state_args *x, weft_shape *out)
{
    const graph_tensor *like = graph_tensor_at(g, x->like);
    *out = (weft_shape){.dtype = x->dtype ? x->dtype : WEFT_F32};
    if (x->keep && x->shape)
        return err_fail(WEFT_USAGE, CALL "(): '%s' has keep and shape; give one of them", x->name);
    if ((x->keep || x->shape) && g->now.by_element)
        return err_fail(WEFT_UNSUPPORTED,
                        CALL "(): '%s' has axes of its own (keep or shape), and the rule's unit is "
                             "WEFT_UNIT_ELEMENT, which sees ranges of many parameters without "
                             "their axes; declare WEFT_UNIT_TENSOR or WEFT_UNIT_MATRIX",
                        x->name);
    if ((x->keep || x->shape) && !*g->now.state_of)
        return err_fail(WEFT_UNSUPPORTED,
                        CALL "(): '%s' has axes of its own (keep or shape); a state of a list has "
                             "those of its parameter",
                        x->name);
    if (x->keep)
        return kept_shape(x, like, out);
    if (x->shape)
        return own_shape(x, like, out);
    out->rank = like->shape.rank;
    memcpy(out->axes, like->shape.axes, sizeof out->axes);
    return WEFT_OK;
}

static weft_status check_name(const graph *g, const weft_state_args *x, const weft_tensor *out,
                              char full[2 * WEFT_MAX_NAME])
{
    weft_status st = graph_check_name(CALL, "name", x->name);
    if (st == WEFT_OK)
        st = graph_check_pointer(CALL, "out", out);
    if (st == WEFT_OK)
        st = check_like(g, x);
    if (st != WEFT_OK)
        return st;
    snprintf(full, 2 * WEFT_MAX_NAME, "%s.%s",
             *g->now.state_of ? g->now.state_of : graph_tensor_at(g, x->like)->name, x->name);
    st = graph_check_name(CALL, "name", full);
    if (st == WEFT_OK && graph_find(g, full))
        st = err_fail(WEFT_USAGE, CALL "(): the graph already has a tensor named %s", full);
    return st;
}

weft_status graph_state(void *ctx, const weft_state_args *args, weft_tensor *out)
{
    graph *g = ctx;
    weft_state_args x;
    weft_shape shape;
    char full[2 * WEFT_MAX_NAME];
    weft_status st = graph_check_call(g, CALL_STATE, 0);
    if (st == WEFT_OK)
        st = sized_take(CALL, args, &x, sizeof x, 0);
    if (st == WEFT_OK)
        st = sized_check_flags(CALL, x.reserved, 0);
    if (st == WEFT_OK)
        st = check_name(g, &x, out, full);
    if (st == WEFT_OK)
        st = check_type(g, &x);
    if (st == WEFT_OK)
        st = shape_of(g, &x, &shape);
    if (st == WEFT_OK && x.init)
        st = check_init(g, &x, &shape);
    if (st != WEFT_OK)
        return st;
    const weft_shape like = graph_tensor_at(g, x.like)->shape;
    *out = graph_add(g, full, WEFT_T_STATE, &shape);
    graph_tensor *t = graph_tensor_at(g, *out);
    t->of = x.like;
    t->init = x.init && strcmp(x.init, "zeros") ? pool_text(&g->pool, x.init) : NULL;
    t->full = shape.rank == like.rank;
    for (uint32_t i = 0; i < shape.rank; i++) {
        const char *name = shape.axes[i].name;
        const uint32_t k = graph_axis_of(&like, name, strlen(name));
        t->follows[i] = k < like.rank ? 1 + k : 0;
        t->full = t->full && t->follows[i] == i + 1;
    }
    return WEFT_OK;
}
