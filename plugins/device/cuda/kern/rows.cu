/* kern/rows.cu: ops that look at a few elements at a time: GELU, bias and residual, the
 * gated unit, rotary embedding, rows of a table.
 *
 * A thread takes WIDE elements of a row, or one where rows are no whole vectors. Every kernel reads
 * its operands once and writes its result once, so memory bandwidth is the bound; results may alias
 * operands, because a thread reads an element before it writes it. */
#include "common.cuh"

/* Where a thread's elements are: the first of them, and its column. */
struct spot {
    int64_t at;
    int64_t col;
};

template <int W> FN bool find_spot(const struct gpu_sizes &z, struct spot *s)
{
    const int64_t vectors = z.cols / W, i = block() * threads() + thread();
    if (i >= z.rows * vectors)
        return false;
    s->at = i * W;
    if (z.rows * vectors <= 0xffffffffll)
        s->col = (int64_t)((uint32_t)i % (uint32_t)vectors) * W;
    else
        s->col = i % vectors * W;
    return true;
}

/* GELU in its tanh form is x * logistic(2u) with u = sqrt(2/pi) (x + 0.044715 x^3), which has no
 * cancellation for large negative x. */
#define GELU_A 1.59576912f   /* 2 sqrt(2/pi) */
#define GELU_B 0.0713548163f /* 2 sqrt(2/pi) * 0.044715 */

FN float gelu(float x)
{
    return x * logistic(x * fmaf(x * x, GELU_B, GELU_A));
}

/* d gelu / dx = s + x s (1 - s) du, s = logistic(2u), du = d(2u)/dx */
FN float gelu_slope(float x)
{
    const float xx = x * x, s = logistic(x * fmaf(xx, GELU_B, GELU_A));
    return fmaf(x * fmaf(xx, 3 * GELU_B, GELU_A), s * (1.0f - s), s);
}

/* Of a thread's columns; zeros where there is none. */
template <class T, int W> FN void load_bias(const void *bias, const struct spot &s, float (&b)[W])
{
    for (int i = 0; i < W; i++)
        b[i] = 0;
    if (bias)
        load<W>((const T *)bias + s.col, b);
}

/* in: x [T,F], perhaps b [F]; out: y [T,F] */
template <class T, int W> FN void gelu_row(const struct gpu_job &j)
{
    struct spot s;
    float x[W], b[W];
    if (!find_spot<W>(j.z, &s))
        return;
    load<W>((const T *)j.in[0] + s.at, x);
    load_bias<T, W>(j.in[1], s, b);
    for (int i = 0; i < W; i++)
        x[i] = gelu(x[i] + b[i]);
    store<W>((T *)j.out[0] + s.at, x);
}

FOR_ROWS(gelu, ROW_BLOCK, gelu_row)

/* in: dy [T,F], x [T,F], perhaps b [F]; out: dx [T,F] */
template <class T, int W> FN void gelu_dx_row(const struct gpu_job &j)
{
    struct spot s;
    float d[W], x[W], b[W];
    if (!find_spot<W>(j.z, &s))
        return;
    load<W>((const T *)j.in[0] + s.at, d);
    load<W>((const T *)j.in[1] + s.at, x);
    load_bias<T, W>(j.in[2], s, b);
    for (int i = 0; i < W; i++)
        d[i] *= gelu_slope(x[i] + b[i]);
    store<W>((T *)j.out[0] + s.at, d);
}

FOR_ROWS(gelu_dx, ROW_BLOCK, gelu_dx_row)

/* in: x [T,C], b [C], r [T,C]; out: x + b + r [T,C] */
template <class T, int W> FN void residual_row(const struct gpu_job &j)
{
    struct spot s;
    float x[W], b[W], r[W];
    if (!find_spot<W>(j.z, &s))
        return;
    load<W>((const T *)j.in[0] + s.at, x);
    load<W>((const T *)j.in[1] + s.col, b);
    load<W>((const T *)j.in[2] + s.at, r);
    for (int i = 0; i < W; i++)
        x[i] = x[i] + b[i] + r[i];
    store<W>((T *)j.out[0] + s.at, x);
}

FOR_ROWS(bias_residual, ROW_BLOCK, residual_row)

/* in: gate [T,F], up [T,F]; out: gate * logistic(gate) * up [T,F] */
template <class T, int W> FN void swiglu_row(const struct gpu_job &j)
{
    struct spot s;
    float g[W], u[W];
    if (!find_spot<W>(j.z, &s))
        return;
    load<W>((const T *)j.in[0] + s.at, g);
    load<W>((const T *)j.in[1] + s.at, u);
    for (int i = 0; i < W; i++)
        g[i] = g[i] * logistic(g[i]) * u[i];
    store<W>((T *)j.out[0] + s.at, g);
}

FOR_ROWS(swiglu, ROW_BLOCK, swiglu_row)

/* in: dy [T,F], gate [T,F], up [T,F]; out: dgate [T,F], dup [T,F]. With s = logistic(gate):
 * dup = dy * gate * s, dgate = dy * up * s * (1 + gate * (1 - s)). */
template <class T, int W> FN void swiglu_dx_row(const struct gpu_job &j)
{
    struct spot s;
    float d[W], g[W], u[W];
    if (!find_spot<W>(j.z, &s))
        return;
    load<W>((const T *)j.in[0] + s.at, d);
    load<W>((const T *)j.in[1] + s.at, g);
    load<W>((const T *)j.in[2] + s.at, u);
    for (int i = 0; i < W; i++) {
        const float l = logistic(g[i]), slope = l * fmaf(g[i], 1.0f - l, 1.0f);
        const float dup = d[i] * g[i] * l;
        g[i] = d[i] * u[i] * slope;
        u[i] = dup;
    }
    store<W>((T *)j.out[0] + s.at, g);
    store<W>((T *)j.out[1] + s.at, u);
}

FOR_ROWS(swiglu_dx, ROW_BLOCK, swiglu_dx_row)

/* in: x [T,H,D], a table of cosines, then sines, of the pairs [sequence][2][D/2]; out: y [T,H,D].
 * Elements i and i + D/2 of a head are turned by angle i. Here `cols` is half of H * D, so that a
 * thread has W pairs. */
template <class T, int W> FN void rope_row(const struct gpu_job &j)
{
    struct spot s;
    float a[W], b[W], c[W], t[W], x[W], y[W];
    if (!find_spot<W>(j.z, &s))
        return;
    const int64_t half = j.z.dim / 2, head = s.at / half, i = s.at - head * half;
    const int64_t at = head * j.z.dim + i, position = head / j.z.heads % j.z.sequence;
    const float *turn = (const float *)j.in[1] + position * j.z.dim + i;
    load<W>((const T *)j.in[0] + at, a);
    load<W>((const T *)j.in[0] + at + half, b);
    load<W>(turn, c);
    load<W>(turn + half, t);
    for (int k = 0; k < W; k++) {
        x[k] = fmaf(a[k], c[k], -(b[k] * t[k]));
        y[k] = fmaf(b[k], c[k], a[k] * t[k]);
    }
    store<W>((T *)j.out[0] + at, x);
    store<W>((T *)j.out[0] + at + half, y);
}

FOR_ROWS(rope, ROW_BLOCK, rope_row)

/* in: table [V,F], ids i32 [T]; out: y [T,F]. An id that the table has not gives zeros. */
template <class T, int W> FN void embedding_row(const struct gpu_job &j)
{
    struct spot s;
    float x[W] = {0};
    if (!find_spot<W>(j.z, &s))
        return;
    const int64_t token = (s.at - s.col) / j.z.cols;
    const int64_t id = ((const int32_t *)j.in[1])[token] - j.z.first;
    if (id >= 0 && id < j.z.table)
        load<W>((const T *)j.in[0] + id * j.z.cols + s.col, x);
    store<W>((T *)j.out[0] + s.at, x);
}

FOR_ROWS(embedding, ROW_BLOCK, embedding_row)
