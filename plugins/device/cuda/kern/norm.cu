/* kern/norm.cu: layer normalisation and normalisation by the root of the mean square: forward, and
 * the gradient for x. (Those for gain and bias are column sums: colsum.cu.)
 *
 * A team of threads has a row: a warp where the row is short, else a block. Each thread keeps
 * TEAM_VECTORS vectors of it in registers, so that the row is read once; what is beyond them in a
 * very long row is read again in each pass. */
#include "common.cuh"

/* This thread's part of a row. */
template <class T, int W> struct part {
    int64_t row, first, step, cols; /* first: of its elements; step: from vector to vector */
    int team;
};

template <class T, int W> FN bool find_part(const struct gpu_sizes &z, struct part<T, W> *p)
{
    p->team = z.team;
    p->cols = z.cols;
    p->row = block() * (threads() / z.team) + thread() / z.team;
    p->first = (int64_t)(thread() % z.team) * W;
    p->step = (int64_t)z.team * W;
    return p->row < z.rows; /* the same for a whole team */
}

/* Vector k of this thread; zeros beyond the row's end. */
template <class T, int W>
FN bool row_load(const struct part<T, W> &p, const void *x, int64_t k, float (&out)[W])
{
    const int64_t at = p.first + k * p.step;
    for (int i = 0; i < W; i++)
        out[i] = 0;
    if (at >= p.cols)
        return false;
    load<W>((const T *)x + p.row * p.cols + at, out);
    return true;
}

template <class T, int W> FN int64_t vectors_of(const struct part<T, W> &p)
{
    return (p.cols - p.first + p.step - 1) / p.step;
}

/* The row in registers, and how many of its vectors are not. */
template <class T, int W>
FN void row_keep(const struct part<T, W> &p, const void *x, float (&kept)[TEAM_VECTORS][W])
{
#pragma unroll
    for (int k = 0; k < TEAM_VECTORS; k++)
        row_load(p, x, k, kept[k]);
}

/* Sum over the team of f(element) for each element of its row. */
template <class T, int W, class F>
FN float row_total(const struct part<T, W> &p, const void *x, const float (&kept)[TEAM_VECTORS][W],
                   float *scratch, F f)
{
    float sum = 0;
#pragma unroll
    for (int k = 0; k < TEAM_VECTORS; k++)
        if (p.first + k * p.step < p.cols)
            for (int i = 0; i < W; i++)
                sum += f(kept[k][i]);
    for (int64_t k = TEAM_VECTORS; k < vectors_of(p); k++) {
        float v[W];
        row_load(p, x, k, v);
        for (int i = 0; i < W; i++)
            sum += f(v[i]);
    }
    return team_sum(sum, p.team, scratch);
}

/* y = f(x, g, b) for one vector of the row; b may be absent. */
template <class T, int W, class F>
FN void row_put(const struct part<T, W> &p, const struct gpu_job &j, int64_t k, const float (&x)[W],
                const void *bias, F f)
{
    const int64_t at = p.first + k * p.step;
    float g[W], b[W] = {0}, y[W];
    if (at >= p.cols)
        return;
    load<W>((const T *)j.in[1] + at, g);
    if (bias)
        load<W>((const T *)bias + at, b);
    for (int i = 0; i < W; i++)
        y[i] = f(x[i], g[i], b[i]);
    store<W>((T *)j.out[0] + p.row * p.cols + at, y);
}

template <class T, int W, class F>
FN void row_write(const struct part<T, W> &p, const struct gpu_job &j,
                  const float (&kept)[TEAM_VECTORS][W], const void *bias, F f)
{
#pragma unroll
    for (int k = 0; k < TEAM_VECTORS; k++)
        row_put(p, j, k, kept[k], bias, f);
    for (int64_t k = TEAM_VECTORS; k < vectors_of(p); k++) {
        float x[W];
        row_load(p, j.in[0], k, x);
        row_put(p, j, k, x, bias, f);
    }
}

/* in: x [T,C], g [C], b [C]; out: y [T,C], mean [T], rstd [T] */
template <class T, int W> FN void layernorm_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    struct part<T, W> p;
    float kept[TEAM_VECTORS][W];
    if (!find_part(j.z, &p))
        return;
    row_keep(p, j.in[0], kept);
    const float n = (float)p.cols;
    const float mean = row_total(p, j.in[0], kept, scratch, [](float x) { return x; }) / n;
    const float var =
        row_total(p, j.in[0], kept, scratch, [mean](float x) { return (x - mean) * (x - mean); }) /
        n;
    const float rstd = 1.0f / sqrtf(var + j.z.eps);
    row_write(p, j, kept, j.in[2],
              [mean, rstd](float x, float g, float b) { return fmaf((x - mean) * rstd, g, b); });
    if (p.first == 0) {
        ((float *)j.out[1])[p.row] = mean;
        ((float *)j.out[2])[p.row] = rstd;
    }
}

FOR_ROWS(layernorm, TEAM_MAX, layernorm_row)

/* in: x [T,C], g [C]; out: y [T,C], rstd [T] */
template <class T, int W> FN void rmsnorm_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    struct part<T, W> p;
    float kept[TEAM_VECTORS][W];
    if (!find_part(j.z, &p))
        return;
    row_keep(p, j.in[0], kept);
    const float sum = row_total(p, j.in[0], kept, scratch, [](float x) { return x * x; });
    const float rstd = 1.0f / sqrtf(sum / (float)p.cols + j.z.eps);
    row_write(p, j, kept, nullptr, [rstd](float x, float g, float b) { return x * rstd * g + b; });
    if (p.first == 0)
        ((float *)j.out[1])[p.row] = rstd;
}

FOR_ROWS(rmsnorm, TEAM_MAX, rmsnorm_row)

/* --- gradients for x --- */

/* h = dy * g and n = (x - mean) * rstd of one vector, from in: dy, x, g. */
template <class T, int W>
FN bool grad_load(const struct part<T, W> &p, const struct gpu_job &j, int64_t k, float mean,
                  float rstd, float (&h)[W], float (&n)[W])
{
    float g[W] = {0};
    const bool there = row_load(p, j.in[0], k, h);
    row_load(p, j.in[1], k, n);
    if (there)
        load<W>((const T *)j.in[2] + p.first + k * p.step, g);
    for (int i = 0; i < W; i++) {
        h[i] *= g[i];
        n[i] = (n[i] - mean) * rstd;
    }
    return there;
}

/* The means over the row of h and of h * n, and h and n themselves where they are kept. */
template <class T, int W>
FN void grad_means(const struct part<T, W> &p, const struct gpu_job &j, float mean, float rstd,
                   float (&h)[TEAM_VECTORS][W], float (&n)[TEAM_VECTORS][W], float *scratch,
                   float *mean_h, float *mean_hn)
{
    float sum_h = 0, sum_hn = 0;
#pragma unroll
    for (int k = 0; k < TEAM_VECTORS; k++) {
        grad_load(p, j, k, mean, rstd, h[k], n[k]);
        for (int i = 0; i < W; i++) {
            sum_h += h[k][i];
            sum_hn = fmaf(h[k][i], n[k][i], sum_hn);
        }
    }
    for (int64_t k = TEAM_VECTORS; k < vectors_of(p); k++) {
        float hk[W], nk[W];
        grad_load(p, j, k, mean, rstd, hk, nk);
        for (int i = 0; i < W; i++) {
            sum_h += hk[i];
            sum_hn = fmaf(hk[i], nk[i], sum_hn);
        }
    }
    *mean_h = team_sum(sum_h, p.team, scratch) / (float)p.cols;
    *mean_hn = team_sum(sum_hn, p.team, scratch) / (float)p.cols;
}

/* dx = rstd * (h - a - n * b) */
template <class T, int W>
FN void grad_put(const struct part<T, W> &p, const struct gpu_job &j, int64_t k, float rstd,
                 const float (&h)[W], const float (&n)[W], float a, float b)
{
    const int64_t at = p.first + k * p.step;
    float dx[W];
    if (at >= p.cols)
        return;
    for (int i = 0; i < W; i++)
        dx[i] = (h[i] - a - n[i] * b) * rstd;
    store<W>((T *)j.out[0] + p.row * p.cols + at, dx);
}

template <class T, int W>
FN void grad_row(const struct gpu_job &j, const float *means, const float *rstds, float *scratch)
{
    struct part<T, W> p;
    float h[TEAM_VECTORS][W], n[TEAM_VECTORS][W], mean_h, mean_hn;
    if (!find_part(j.z, &p))
        return;
    const float mean = means ? means[p.row] : 0, rstd = rstds[p.row];
    grad_means(p, j, mean, rstd, h, n, scratch, &mean_h, &mean_hn);
    const float a = means ? mean_h : 0;
#pragma unroll
    for (int k = 0; k < TEAM_VECTORS; k++)
        grad_put(p, j, k, rstd, h[k], n[k], a, mean_hn);
    for (int64_t k = TEAM_VECTORS; k < vectors_of(p); k++) {
        float hk[W], nk[W];
        grad_load(p, j, k, mean, rstd, hk, nk);
        grad_put(p, j, k, rstd, hk, nk, a, mean_hn);
    }
}

/* in: dy [T,C], x [T,C], g [C], mean [T], rstd [T]; out: dx [T,C] */
template <class T, int W> FN void layernorm_dx_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    grad_row<T, W>(j, (const float *)j.in[3], (const float *)j.in[4], scratch);
}

FOR_ROWS(layernorm_dx, TEAM_MAX, layernorm_dx_row)

/* in: dy [T,C], x [T,C], g [C], rstd [T]; out: dx [T,C] */
template <class T, int W> FN void rmsnorm_dx_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    grad_row<T, W>(j, nullptr, (const float *)j.in[3], scratch);
}

FOR_ROWS(rmsnorm_dx, TEAM_MAX, rmsnorm_dx_row)
