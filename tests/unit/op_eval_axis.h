/* Part of op_eval.h: conversions of type, ops along an axis and batched products. */
#ifndef OP_EVAL_AXIS_H
#define OP_EVAL_AXIS_H

/* To whole numbers they saturate; 16-bit types are exact here, as all numbers of these tests are.
 */
static void eval_cast(const eval_call *c)
{
    uint32_t to = c->os[0].dtype;
    double lo = to == WEFT_U8 ? 0 : INT32_MIN, hi = to == WEFT_U8 ? 255 : INT32_MAX;
    for (int64_t i = 0; i < eval_elements(&c->os[0]); i++) {
        double x = c->in[0][i], whole = isnan(x) ? 0 : fmin(hi, fmax(lo, nearbyint(x)));
        c->out[0][i] = to == WEFT_U8 || to == WEFT_I32 ? whole : x;
    }
}

/* Element (outer, k, inner) of the operand that has the axis, and (outer, inner) of the other. */
static void eval_axis(const eval_call *c)
{
    int reduces = strstr(c->id, "_axis") != NULL, max = c->id[0] == 'm';
    const weft_shape *full = reduces ? &c->is[0] : &c->os[0];
    int64_t at = c->attrs[!strcmp(c->attrs[0].key, "size")].i, n = full->axes[at].size, inner = 1;
    for (uint32_t i = (uint32_t)at + 1; i < full->rank; i++)
        inner *= full->axes[i].size;
    for (int64_t i = 0; i < eval_elements(full) / n; i++) {
        double r = max ? -INFINITY : 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t e = (i / inner * n + k) * inner + i % inner;
            if (reduces)
                r = max ? fmax(r, c->in[0][e]) : r + c->in[0][e];
            else
                c->out[0][e] = c->in[0][i];
        }
        if (reduces)
            c->out[0][i] = r;
    }
}

/* The sum over l of a [i, l] b [j, l], in which each operand may have its axes the other way. */
static void eval_bmm(const eval_call *c)
{
    int dx = !strcmp(c->id, "bmm.dx"), dw = !strcmp(c->id, "bmm.dw");
    const weft_axis *x = &c->is[0].axes[c->is[0].rank - 2], *y = &c->os[0].axes[c->os[0].rank - 2];
    int64_t m = y[0].size, n = y[1].size, k = x[!dw].size;
    for (int64_t e = 0; e < eval_elements(&c->os[0]); e++) {
        int64_t batch = e / n / m, i = e / n % m, j = e % n;
        c->out[0][e] = 0;
        for (int64_t l = 0; l < k; l++)
            c->out[0][e] += c->in[0][batch * m * k + (dw ? l * m + i : i * k + l)] *
                            c->in[1][batch * n * k + (dx || dw ? l * n + j : j * k + l)];
    }
}

#endif
