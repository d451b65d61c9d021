/* kern/xent.c: softmax, cross-entropy and its gradient, fused per row.
 *
 * The first pass computes maximum and sum of exponentials together, block by block, and rescales
 * the sum when the maximum grows (online softmax), so the row is read from memory once. The second
 * pass reads it from the cache and computes the gradient, in place if the output aliases the
 * logits. Each row's negative log-likelihood goes to the workspace; the host side adds them in
 * order. */
#include "impl.h"
#include "xent_row.h"

/* The row's softmax is exp(x - max) / sum. */
struct row_stats {
    float max, sum;
};

INLINE struct row_stats row_stats(const void *x, int64_t n, const uint32_t dt)
{
    struct row_stats r = {-__builtin_inff(), 0};
    for (int64_t i = 0; i < n; i += XENT_BLOCK) {
        const int64_t len = n - i < XENT_BLOCK ? n - i : XENT_BLOCK;
        const float m = block_max(x, i, len, dt);
        if (m > r.max) {
            r.sum *= expf(r.max - m);
            r.max = m;
        }
        r.sum += block_sum(x, i, len, r.max, dt);
    }
    return r;
}

/* Log-probability of column `target`; NaN if it is beyond the columns, so that the loss is NaN. */
INLINE float row_logp(const void *x, int64_t target, int64_t n, struct row_stats r,
                      const uint32_t dt)
{
    return target < n ? get_one(x, target, dt) - r.max - logf(r.sum) : __builtin_nanf("");
}

/* A target below 0 is ignored: no loss, no gradient. */
INLINE void xent_row(const struct cpu_job *j, int64_t t, float factor, const uint32_t dt)
{
    const int64_t c = j->a->cols, n = j->a->valid;
    const int64_t target = ((const int32_t *)j->in[1])[t];
    const char *x = (const char *)j->in[0] + t * c * dt_size(dt);
    char *d = (char *)j->out[0] + t * c * dt_size(dt);
    if (target < 0) {
        memset(d, 0, (size_t)(c * dt_size(dt)));
        ((float *)j->ws)[t] = 0;
        return;
    }
    const struct row_stats r = row_stats(x, n, dt);
    const float logp = row_logp(x, target, n, r, dt), scale = factor / r.sum;
    EACH_VECTOR(i, left, n,
                v_put_n(d, i, left, dt, v_exp_low(v_get_n(x, i, left, dt) - r.max) * scale));
    memset(d + n * dt_size(dt), 0, (size_t)((c - n) * dt_size(dt)));
    if (target < n)
        v_put_tail(d, target, 1, dt, v_set1(expm1f(logp) * factor));
    ((float *)j->ws)[t] = -logp;
}

/* in: logits [T,V], targets i32 [T], scale; out: dlogits [T,V]. ws: f32 [T]. Item: a row. */
void KERNEL(xent)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const float factor = (float)j->a->weight * *(const float *)j->in[2];
    for (int64_t t = begin; t < end; t++) {
#define CALL(dt) xent_row(j, t, factor, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
    }
}

INLINE void loss_row(const struct cpu_job *j, int64_t t, const uint32_t dt)
{
    const int64_t target = ((const int32_t *)j->in[1])[t], n = j->a->valid;
    const char *x = (const char *)j->in[0] + t * j->a->cols * dt_size(dt);
    float nll = 0;
    if (target >= 0)
        nll = -row_logp(x, target, n, row_stats(x, n, dt), dt);
    ((float *)j->ws)[t] = nll;
}

/* in: logits [T,V], targets i32 [T]. ws: f32 [T]. Item: a row. */
void KERNEL(xent_loss)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    for (int64_t t = begin; t < end; t++) {
#define CALL(dt) loss_row(j, t, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
    }
}
