/* kern/xent.cu: softmax and cross-entropy, whole and over a part of the vocabulary.
 *
 * A block has a row of logits. One pass finds the maximum and the sum of exponentials together,
 * each thread with a maximum of its own; a second, whose reads the L2 cache answers, writes the
 * gradient, over the logits if the caller wants: logits are never stored twice. The losses of rows
 * go to the workspace, and loss_total (flat.cu) adds them up in order. */
#include "common.cuh"

#define LEAST (-INFINITY)

/* A row's softmax is exp(x - max) / sum. */
struct row_stats {
    float max, sum;
};

template <class T, int W> FN void stats_at(const T *x, int64_t i, struct row_stats *r)
{
    float v[W], max = LEAST, sum = 0;
    load<W>(x + i, v);
    for (int k = 0; k < W; k++)
        max = fmaxf(max, v[k]);
    const float m = fmaxf(r->max, max);
    if (m == LEAST) { /* nothing but minus infinity, and numbers that are none */
        for (int k = 0; k < W; k++)
            r->sum += v[k] == LEAST ? 0.0f : NAN;
        return;
    }
    for (int k = 0; k < W; k++)
        sum += exponential(v[k] - m);
    r->sum = r->sum * exponential(r->max - m) + sum;
    r->max = m;
}

/* Of columns [0, n), the same on all threads. */
template <class T, int W> FN struct row_stats stats_of(const T *x, int64_t n, float *scratch)
{
    struct row_stats r = {LEAST, 0};
    const int64_t whole = n / W * W;
    for (int64_t i = (int64_t)thread() * W; i < whole; i += (int64_t)threads() * W)
        stats_at<T, W>(x, i, &r);
    if (whole + thread() < n)
        stats_at<T, 1>(x, whole + thread(), &r);
    const float max = block_max(r.max, scratch);
    const float mine = r.max == LEAST && r.sum == 0 ? 0 : r.sum * exponential(r.max - max);
    return {max, block_sum(mine, scratch)};
}

/* f(x) for columns [0, n), zeros for [n, cols), into d. */
template <class T, int W, class F> FN void write_row(const T *x, T *d, int64_t n, int64_t cols, F f)
{
    const int64_t whole = n / W * W;
    for (int64_t i = (int64_t)thread() * W; i < whole; i += (int64_t)threads() * W) {
        float v[W];
        load<W>(x + i, v);
        for (int k = 0; k < W; k++)
            v[k] = f(v[k]);
        store<W>(d + i, v);
    }
    for (int64_t i = whole + thread(); i < cols; i += threads())
        put(d + i, i < n ? f(widen(x[i])) : 0.0f);
}

template <class T> FN void zero_row(T *d, int64_t cols)
{
    for (int64_t i = thread(); i < cols; i += threads())
        put(d + i, 0.0f);
}

/* Logarithm of the probability of column `target`. One beyond the columns has none, and the loss
 * says so by a NaN. */
template <class T> FN float target_logp(const T *x, int64_t target, int64_t n, struct row_stats r)
{
    return target < n ? widen(x[target]) - r.max - logf(r.sum) : NAN;
}

/* in: logits [T,V], targets i32 [T], scale; out: dlogits [T,V]; ws: f32 [T]. A target below 0 is
 * ignored: no loss, no gradient. */
template <class T, int W> FN void xent_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    const int64_t t = block(), target = ((const int32_t *)j.in[1])[t];
    const T *x = (const T *)j.in[0] + t * j.z.cols;
    T *d = (T *)j.out[0] + t * j.z.cols;
    float *loss = (float *)j.ws + t;
    if (target < 0) {
        zero_row(d, j.z.cols);
        if (thread() == 0)
            *loss = 0;
        return;
    }
    const struct row_stats r = stats_of<T, W>(x, j.z.valid, scratch);
    const float logp = target_logp(x, target, j.z.valid, r);
    const float factor = j.z.weight * *(const float *)j.in[2], scale = factor / r.sum;
    sync_block(); /* all have read the target's logit */
    write_row<T, W>(x, d, j.z.valid, j.z.cols,
                    [r, scale](float v) { return exponential(v - r.max) * scale; });
    sync_block();
    if (thread() > 0)
        return;
    if (target < j.z.valid)
        put(d + target, expm1f(logp) * factor);
    *loss = -logp;
}

FOR_ROWS(softmax_xent, 1024, xent_row)

/* in: logits [T,V], targets i32 [T]; ws: f32 [T] */
template <class T, int W> FN void xent_loss_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    const int64_t t = block(), target = ((const int32_t *)j.in[1])[t];
    const T *x = (const T *)j.in[0] + t * j.z.cols;
    float nll = 0;
    if (target >= 0)
        nll = -target_logp(x, target, j.z.valid, stats_of<T, W>(x, j.z.valid, scratch));
    if (thread() == 0)
        ((float *)j.ws)[t] = nll;
}

FOR_ROWS(softmax_xent_loss, 1024, xent_loss_row)

/* --- a part of the vocabulary: columns `first` and those behind it, `valid` of them real --- */

/* in: logits [T,V]; out: max f32 [T], the least number where no column is real */
template <class T, int W> FN void vocab_max_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    const T *x = (const T *)j.in[0] + block() * j.z.cols;
    const int64_t n = j.z.valid, whole = n / W * W;
    float max = LEAST;
    for (int64_t i = (int64_t)thread() * W; i < whole; i += (int64_t)threads() * W) {
        float v[W];
        load<W>(x + i, v);
        for (int k = 0; k < W; k++)
            max = fmaxf(max, v[k]);
    }
    if (whole + thread() < n)
        max = fmaxf(max, widen(x[whole + thread()]));
    max = block_max(max, scratch);
    if (thread() == 0)
        ((float *)j.out[0])[block()] = max;
}

FOR_ROWS(xent_max, 1024, vocab_max_row)

/* in: logits [T,V], targets i32 [T], max f32 [T]; out: sums f32 [T,2]: of the exponentials, and the
 * target's logit where it is here */
template <class T, int W> FN void vocab_sums_row(const struct gpu_job &j)
{
    SHARED(float, scratch, 33);
    const int64_t t = block(), n = j.z.valid, whole = n / W * W;
    const int64_t target = ((const int32_t *)j.in[1])[t] - j.z.first;
    const T *x = (const T *)j.in[0] + t * j.z.cols;
    const float max = ((const float *)j.in[2])[t];
    float sum = 0, *out = (float *)j.out[0] + 2 * t;
    for (int64_t i = (int64_t)thread() * W; i < whole; i += (int64_t)threads() * W) {
        float v[W];
        load<W>(x + i, v);
        for (int k = 0; k < W; k++)
            sum += exponential(v[k] - max);
    }
    if (whole + thread() < n)
        sum += exponential(widen(x[whole + thread()]) - max);
    sum = block_sum(sum, scratch);
    if (thread() > 0)
        return;
    out[0] = sum;
    out[1] = target >= 0 && target < n ? widen(x[target]) : 0.0f;
}

FOR_ROWS(xent_sums, 1024, vocab_sums_row)

/* Logarithm of the target's probability. A target beyond the vocabulary has none; `table` is the
 * size of the whole vocabulary, 0 if unknown. */
FN float vocab_logp(const struct gpu_sizes &z, int64_t id, float max, const float *sums)
{
    return z.table > 0 && id >= z.table ? NAN : sums[1] - max - logf(sums[0]);
}

/* in: logits [T,V], targets i32 [T], max f32 [T], sums f32 [T,2], scale; out: dlogits [T,V];
 * ws: f32 [T] */
template <class T, int W> FN void vocab_finish_row(const struct gpu_job &j)
{
    const int64_t t = block(), id = ((const int32_t *)j.in[1])[t], target = id - j.z.first;
    const T *x = (const T *)j.in[0] + t * j.z.cols;
    T *d = (T *)j.out[0] + t * j.z.cols;
    const float max = ((const float *)j.in[2])[t], *sums = (const float *)j.in[3] + 2 * t;
    float *loss = (float *)j.ws + t;
    if (id < 0) {
        zero_row(d, j.z.cols);
        if (thread() == 0)
            *loss = 0;
        return;
    }
    const float factor = j.z.weight * *(const float *)j.in[4], scale = factor / sums[0];
    const float logp = vocab_logp(j.z, id, max, sums);
    write_row<T, W>(x, d, j.z.valid, j.z.cols,
                    [max, scale](float v) { return exponential(v - max) * scale; });
    sync_block();
    if (thread() > 0)
        return;
    if (target >= 0 && target < j.z.valid)
        put(d + target, expm1f(logp) * factor);
    *loss = -logp;
}

FOR_ROWS(xent_finish, 1024, vocab_finish_row)

/* in: targets i32 [T], max f32 [T], sums f32 [T,2]; ws: f32 [T]. A thread has a row. */
ENTRY(xent_loss, ROW_BLOCK, struct gpu_job)
{
    const int64_t t = block() * ROW_BLOCK + thread();
    if (t >= j.z.rows)
        return;
    const int32_t id = ((const int32_t *)j.in[0])[t];
    const float max = ((const float *)j.in[1])[t], *sums = (const float *)j.in[2] + 2 * t;
    ((float *)j.ws)[t] = id < 0 ? 0.0f : -vocab_logp(j.z, id, max, sums);
}
