/* check/op/values.c: numbers for examples, and what examples compute from them. */
#include "check/op/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void *check_op_numbers(const weft_shape *s, uint64_t *random, bool mixed, double scale)
{
    const uint64_t n = graph_shape_elements(s);
    char *at = mem_alloc(graph_shape_bytes(s) + 1);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t x = check_random(random);
        const float v = (0.25f + (float)(x >> 41) * 0x1p-23f) * (float)scale;
        if (check_op_real(s))
            ((float *)(void *)at)[i] = mixed && x & 1 ? -v : v;
        else if (s->dtype == WEFT_I32)
            ((int32_t *)(void *)at)[i] = (int32_t)(x & 1);
        else if (s->dtype == WEFT_I64)
            ((int64_t *)(void *)at)[i] = (int64_t)(x & 1);
    }
    return at;
}

bool check_op_finite(const weft_shape *s, const void *x)
{
    for (uint64_t i = 0; check_op_real(s) && i < graph_shape_elements(s); i++)
        if (!isfinite(((const float *)x)[i]))
            return false;
    return true;
}

double check_op_largest(const weft_shape *s, const void *x)
{
    double max = 0;
    for (uint64_t i = 0; check_op_real(s) && i < graph_shape_elements(s); i++)
        max = fmax(max, fabs((double)((const float *)x)[i]));
    return max;
}

#define BOUND 1e-4 /* of the largest magnitude: sums in another order */

uint64_t check_op_unlike(const weft_shape *s, const void *a, const void *b)
{
    const uint64_t n = graph_shape_elements(s);
    const float *x = a, *y = b;
    const double bound = BOUND * check_op_largest(s, a);
    for (uint64_t i = 0; check_op_real(s) && i < n; i++)
        if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i])) &&
            !(fabs((double)x[i] - (double)y[i]) <= bound))
            return i;
    return n;
}

static void set(weft_attr *attrs, uint32_t *n, const char *key, int64_t value, bool adds)
{
    uint32_t i = 0;
    while (i < *n && strcmp(attrs[i].key, key))
        i++;
    if (i == *n)
        attrs[(*n)++] = (weft_attr){.key = key};
    attrs[i].i = value + (adds ? attrs[i].i : 0);
}

uint32_t check_op_position(const weft_op *op, const weft_attr *attrs, uint32_t nattr,
                           const weft_shape *in, uint32_t nin, const weft_place *places,
                           uint32_t part, weft_attr out[CHECK_OP_ATTRS])
{
    static const char *const keys[] = {"whole.0", "whole.1", "whole.2", "whole.3",
                                       "whole.4", "whole.5", "whole.6", "whole.7"};
    memcpy(out, attrs, nattr * sizeof *attrs);
    if (!op->first_input || op->first_input > nin)
        return nattr;
    const weft_shape *s = &in[op->first_input - 1];
    const weft_place p = places ? places[op->first_input - 1] : (weft_place){0};
    const bool split = p.kind == WEFT_SPLIT;
    int64_t distance = 1, first = 0;
    if (!(op->flags & WEFT_OP_NUMBERED)) {
        if (split && p.axis == op->first_axis)
            set(out, &nattr, "first", part * s->axes[p.axis].size / 2, true);
        return nattr;
    }
    for (uint32_t k = s->rank; k-- > 0; distance *= s->axes[k].size) {
        first += split && p.axis == k ? part * s->axes[k].size / 2 * distance : 0;
        set(out, &nattr, keys[k], s->axes[k].size, false);
    }
    set(out, &nattr, "first", first, false);
    set(out, &nattr, "seed", 1, false);
    return nattr;
}

bool check_op_forward(const check_op_example *e, const void *const *from, uint32_t in_place,
                      void **to, char why[1024])
{
    weft_attr attrs[CHECK_OP_ATTRS];
    const uint32_t nattr =
        check_op_position(e->of->table, e->attrs, e->nattr, e->in, e->nin, NULL, 0, attrs);
    const check_op_task t = {.id = e->of->c->name,
                             .op = e->of->table,
                             .attrs = attrs,
                             .nattr = nattr,
                             .nin = e->nin,
                             .nout = e->nout,
                             .in_place = in_place,
                             .in = e->in,
                             .out = e->out,
                             .from = from,
                             .to = to};
    for (uint32_t i = 0; i < e->nout; i++)
        to[i] = mem_alloc(graph_shape_bytes(&e->out[i]) + 1);
    const bool done = check_op_compute(e->of, &t, why);
    if (!done)
        check_op_free(to, e->nout);
    return done;
}

void check_op_free(void **values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(values[i]);
        values[i] = NULL;
    }
}

bool check_op_random(const check_op_example *e, uint64_t *random, bool mixed, void **from,
                     void **to, char why[1024])
{
    for (uint32_t i = 0; i < e->nin; i++)
        from[i] = check_op_numbers(&e->in[i], random, mixed, e->scale);
    const bool done = check_op_forward(e, (const void *const *)from, 0, to, why);
    if (!done)
        check_op_free(from, e->nin);
    return done;
}
