/* kern/xent_vocab.c: softmax, cross-entropy and its gradient with a sharded vocabulary.
 *
 * There are three kernels, between which an all-reduce combines each row's results: first its
 * maximum, then its sum of exponentials and the logit of its target. This shard has the columns
 * [first, first + cols); `valid` of them are not padding. Each row's loss goes to the workspace,
 * and the host side adds them in order, as for kern/xent.c. */
#include "xent_row.h"

/* in: logits [T,V]; out: max f32 [T], -infinity if all columns are padding. Item: a row. */
void KERNEL(vocab_max)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const int64_t row = j->a->cols * dt_size(j->a->dt);
    for (int64_t t = begin; t < end; t++) {
        const char *x = (const char *)j->in[0] + t * row;
#define CALL(dt) ((float *)j->out[0])[t] = block_max(x, 0, j->a->valid, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
    }
}

INLINE void sums_row(const struct cpu_job *j, int64_t t, const uint32_t dt)
{
    const int64_t n = j->a->valid, target = ((const int32_t *)j->in[1])[t] - j->a->first;
    const char *x = (const char *)j->in[0] + t * j->a->cols * dt_size(dt);
    const float max = ((const float *)j->in[2])[t];
    float *out = (float *)j->out[0] + 2 * t, sum = 0;
    for (int64_t i = 0; i < n; i += XENT_BLOCK)
        sum += block_sum(x, i, n - i < XENT_BLOCK ? n - i : XENT_BLOCK, max, dt);
    out[0] = sum;
    out[1] = target >= 0 && target < n ? get_one(x, target, dt) : 0;
}

/* in: logits [T,V], targets i32 [T], max f32 [T]; out: sums f32 [T,2]. Item: a row. */
void KERNEL(vocab_sums)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    for (int64_t t = begin; t < end; t++) {
#define CALL(dt) sums_row(j, t, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
    }
}

/* Log-probability of the target; NaN for a target beyond the vocabulary. */
INLINE float vocab_logp(const struct cpu_args *a, int32_t target, float max, const float *sums)
{
    const float logp = sums[1] - max - logf(sums[0]);
    return a->table > 0 && target >= a->table ? __builtin_nanf("") : logp;
}

INLINE void finish_row(const struct cpu_job *j, int64_t t, float factor, const uint32_t dt)
{
    const int64_t c = j->a->cols, n = j->a->valid;
    const int32_t id = ((const int32_t *)j->in[1])[t];
    const char *x = (const char *)j->in[0] + t * c * dt_size(dt);
    char *d = (char *)j->out[0] + t * c * dt_size(dt);
    const float max = ((const float *)j->in[2])[t], *sums = (const float *)j->in[3] + 2 * t;
    if (id < 0) {
        memset(d, 0, (size_t)(c * dt_size(dt)));
        ((float *)j->ws)[t] = 0;
        return;
    }
    const float logp = vocab_logp(j->a, id, max, sums), scale = factor / sums[0];
    EACH_VECTOR(i, left, n,
                v_put_n(d, i, left, dt, v_exp_low(v_get_n(x, i, left, dt) - max) * scale));
    memset(d + n * dt_size(dt), 0, (size_t)((c - n) * dt_size(dt)));
    const int64_t target = id - j->a->first;
    if (target >= 0 && target < n)
        v_put_tail(d, target, 1, dt, v_set1(expm1f(logp) * factor));
    ((float *)j->ws)[t] = -logp;
}

/* in: logits [T,V], targets i32 [T], max f32 [T], sums f32 [T,2], scale; out: dlogits [T,V].
 * ws: f32 [T]. Item: a row. */
void KERNEL(vocab_finish)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const float factor = (float)j->a->weight * *(const float *)j->in[4];
    for (int64_t t = begin; t < end; t++) {
#define CALL(dt) finish_row(j, t, factor, dt)
        BY_TYPE(j->a->dt, CALL);
#undef CALL
    }
}

/* in: targets i32 [T], max f32 [T], sums f32 [T,2]. ws: f32 [T]. Item: a row. */
void KERNEL(vocab_loss)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    for (int64_t t = begin; t < end; t++) {
        const int32_t target = ((const int32_t *)j->in[0])[t];
        const float max = ((const float *)j->in[1])[t], *sums = (const float *)j->in[2] + 2 * t;
        ((float *)j->ws)[t] = target < 0 ? 0 : -vocab_logp(j->a, target, max, sums);
    }
}
