/* kern/decode.c: the work of a token that is generated: attention over caches, and the product of
 * one row with a matrix. Both read each byte of a cache or matrix once and do little with it, so
 * they are bound by memory: no packing, and as many loads in flight as fit.
 *
 * An item is computed by one thread in one order, so results do not depend on the threads. */
#include "attention.h"
#include "impl.h"
#include "kern/simd/vmath.h"

enum { AT_ONCE = 4, WIDE = 4 }; /* rows of a matrix; vectors of a head */

INLINE float lanes_sum(vf x)
{
    float part[VL], sum = 0;
    v_store(part, x);
    for (int step = VL / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            part[i] += part[i + step];
    sum += part[0];
    return sum;
}

/* AT_ONCE rows of w [., n], `stride` apart, times x [n]. */
INLINE void dot_rows(const void *w, int64_t stride, const void *x, int64_t n, float *out,
                     const uint32_t wt, const uint32_t xt)
{
    vf sum[AT_ONCE], more[AT_ONCE];
    for (int r = 0; r < AT_ONCE; r++)
        sum[r] = more[r] = v_set1(0);
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf a = v_get(x, i, xt), b = v_get(x, i + VL, xt);
        for (int r = 0; r < AT_ONCE; r++) {
            sum[r] = v_fma(a, v_get(w, r * stride + i, wt), sum[r]);
            more[r] = v_fma(b, v_get(w, r * stride + i + VL, wt), more[r]);
        }
    }
    for (; i < n; i += VL) {
        const vf a = v_get_n(x, i, n - i, xt);
        for (int r = 0; r < AT_ONCE; r++)
            sum[r] = v_fma(a, v_get_n(w, r * stride + i, n - i, wt), sum[r]);
    }
    for (int r = 0; r < AT_ONCE; r++)
        out[r] = lanes_sum(sum[r] + more[r]);
}

INLINE float dot_row(const void *w, const void *x, int64_t n, const uint32_t wt, const uint32_t xt)
{
    vf sum = v_set1(0), more = v_set1(0);
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        sum = v_fma(v_get(x, i, xt), v_get(w, i, wt), sum);
        more = v_fma(v_get(x, i + VL, xt), v_get(w, i + VL, wt), more);
    }
    for (; i < n; i += VL)
        sum = v_fma(v_get_n(x, i, n - i, xt), v_get_n(w, i, n - i, wt), sum);
    return lanes_sum(sum + more);
}

/* --- y [O] = x [I] w' [I,O] + b --- */

/* Elements of a register's worth of loads: bf16 is multiplied in pairs. */
INLINE int64_t dense(const uint32_t dt)
{
    return dt == WEFT_BF16 ? 2 * VL : VL;
}

INLINE vf add_products(const void *w, int64_t at, const void *x, int64_t i, vf sum,
                       const uint32_t dt)
{
    if (dt != WEFT_BF16)
        return v_fma(v_get(x, i, dt), v_get(w, at + i, dt), sum);
    return v_dot_bf16((vu)v_get((const uint16_t *)x + i, 0, WEFT_F32),
                      (vu)v_get((const uint16_t *)w + at + i, 0, WEFT_F32), sum);
}

/* Rows [0, count) of w [., n] times x [n]; the rows behind them are fetched meanwhile, since a
 * processor's own prefetching stops at each page. */
INLINE void stream_rows(const void *w, int64_t n, const void *x, float *y, const int count,
                        const uint32_t dt)
{
    vf sum[AT_ONCE];
    int64_t i = 0;
    for (int r = 0; r < count; r++)
        sum[r] = v_set1(0);
    for (; i + dense(dt) <= n; i += dense(dt))
        for (int r = 0; r < count; r++) {
            prefetch(w, ((count + r) * n + i) * dt_size(dt));
            sum[r] = add_products(w, r * n, x, i, sum[r], dt);
        }
    for (; i < n; i += VL) {
        const vf a = v_get_n(x, i, n - i, dt);
        for (int r = 0; r < count; r++)
            sum[r] = v_fma(a, v_get_n(w, r * n + i, n - i, dt), sum[r]);
    }
    for (int r = 0; r < count; r++)
        y[r] = v_sum(sum[r]);
}

/* Outputs [o, o + PRODUCT_BLOCK), or those up to the last. */
INLINE void product_block(const struct cpu_job *j, int64_t o, const uint32_t dt)
{
    const int64_t n = j->a->inner, left = smaller(j->a->cols - o, PRODUCT_BLOCK);
    const char *w = (const char *)j->in[1] + o * n * dt_size(dt);
    float y[PRODUCT_BLOCK];
    int64_t r = 0;
    for (; r + AT_ONCE <= left; r += AT_ONCE)
        stream_rows(w + r * n * dt_size(dt), n, j->in[0], y + r, AT_ONCE, dt);
    for (; r < left; r++)
        stream_rows(w + r * n * dt_size(dt), n, j->in[0], y + r, 1, dt);
    for (r = 0; r < left; r += VL) {
        vf sum = v_get_n(y, r, left - r, WEFT_F32);
        if (j->a->nin > 2)
            sum += v_get_n(j->in[2], o + r, left - r, dt);
        v_put_n(j->out[0], o + r, left - r, dt, sum);
    }
}

/* in: x [1,I], w [O,I], b [O]; out: y [1,O]. Item: PRODUCT_BLOCK outputs. */
void KERNEL(product_row)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    for (int64_t k = begin; k < end; k++) {
#define CALL(dt) product_block(j, k *PRODUCT_BLOCK, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
    }
}

/* --- attention --- */

/* Scores of the rows [0, n) of a head's keys, times `scale`; returns the largest. */
INLINE float score_rows(const char *q, const char *keys, int64_t n, int64_t d, float scale,
                        float *score, const uint32_t dt)
{
    float max = -__builtin_inff();
    int64_t p = 0;
    for (; p + AT_ONCE <= n; p += AT_ONCE)
        dot_rows(keys + p * d * dt_size(dt), d, q, d, score + p, dt, dt);
    for (; p < n; p++)
        score[p] = dot_row(keys + p * d * dt_size(dt), q, d, dt, dt);
    for (p = 0; p < n; p++) {
        score[p] *= scale;
        max = score[p] > max ? score[p] : max;
    }
    return max;
}

/* Replace scores by their exponentials below the largest; returns the sum. */
INLINE float exponentials(float *score, int64_t n, float max)
{
    vf sum = v_set1(0);
    for (int64_t p = 0; p < n; p += VL) {
        const vf e = v_select(v_first(n - p), v_exp_low(v_load(score + p) - max), v_set1(0));
        v_store(score + p, e);
        sum += e;
    }
    return lanes_sum(sum);
}

/* y [d] = the sum of the rows [0, n) of a head's values, weighted, times `scale`. */
INLINE void add_values(const char *values, const float *weight, int64_t n, int64_t d, float scale,
                       char *y, const uint32_t dt)
{
    for (int64_t i0 = 0; i0 < d; i0 += WIDE * VL) {
        vf sum[WIDE];
        for (int k = 0; k < WIDE; k++)
            sum[k] = v_set1(0);
        if (d - i0 >= WIDE * VL)
            for (int64_t p = 0; p < n; p++)
                for (int k = 0; k < WIDE; k++)
                    sum[k] =
                        v_fma(v_set1(weight[p]), v_get(values, p * d + i0 + k * VL, dt), sum[k]);
        else
            for (int64_t p = 0; p < n; p++)
                for (int k = 0; k < WIDE && i0 + k * VL < d; k++)
                    sum[k] =
                        v_fma(v_set1(weight[p]),
                              v_get_n(values, p * d + i0 + k * VL, d - i0 - k * VL, dt), sum[k]);
        for (int k = 0; k < WIDE && i0 + k * VL < d; k++)
            v_put_n(y, i0 + k * VL, d - i0 - k * VL, dt, sum[k] * scale);
    }
}

INLINE void attend(const struct cpu_job *j, int64_t item, float *score, const uint32_t dt)
{
    const struct cpu_args *a = j->a;
    const int64_t t = item / a->heads, h = item % a->heads, d = a->dim, size = dt_size(dt);
    const int64_t at = ((const int32_t *)j->in[3])[t], n = at + 1;
    const int64_t head = h / (a->heads / a->kv_heads) * a->sequence * d * size;
    const char *q = (const char *)j->in[0] + ((a->fused ? 3 : 1) * t * a->heads + h) * d * size;
    char *y = (char *)j->out[0] + item * d * size;
    if (at < 0 || at >= a->sequence) {
        memset(y, 0, (size_t)(d * size));
        return;
    }
    const float max =
        score_rows(q, (const char *)j->in[1] + head, n, d, 1.0f / sqrtf((float)d), score, dt);
    const float sum = exponentials(score, n, max);
    add_values((const char *)j->in[2] + head, score, n, d, 1.0f / sum, y, dt);
}

size_t KERNEL(attention_cached_scratch)(const struct cpu_args *a)
{
    return (size_t)(4 * round_up(a->sequence, VL));
}

/* in: q [T,H,D] or qkv [T,3,H,D], k [G,M,D], v [G,M,D], at i32 [T]; out: y [T,H,D]. Item: a query
 * head of a token. */
void KERNEL(attention_cached)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    for (int64_t item = begin; item < end; item++) {
#define CALL(dt) attend(j, item, (float *)(void *)scratch, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
    }
}
