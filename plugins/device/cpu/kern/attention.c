/* kern/attention.c: attention that never holds the matrix of scores.
 *
 * A thread takes a head of a sequence. Forward, blocks of queries visit blocks of keys; a row keeps
 * its maximum and its sum of exponentials, and what it has gathered is rescaled when the maximum
 * grows. Blocks that causality masks altogether are skipped. What is kept for backward is the
 * logarithm of each row's sum (lse).
 *
 * Backward, blocks of keys are outside, so that dK and dV of a block are finished in one visit, and
 * dQ gathers in a buffer of the sequence's length. With P = exp(S - lse) and
 * delta = sum(dy * y) a row: dV = P' dy, dS = P * (dy V' - delta), dQ = dS K, dK = dS' Q.
 *
 * Everything is copied to fp32 buffers first: tokens lie 3 * heads * dim elements apart, which
 * the cache's sets do not like. All work on a head is one thread's, so the bits do not depend on
 * the number of threads. It loses where heads x sequences are fewer than the threads. */
#include "impl.h"
#include "panel.h"
#include "vmath.h"
#include <math.h>

enum { BQ = 32, BK = 64 }; /* queries and keys of a block */

INLINE int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One head of one sequence. qkv: [T, 3, H, D]; y and dy: [T, H, D]; lse: [T, H]. */
struct head {
    int64_t n, d, dp; /* tokens; dimension, and rounded up to whole vectors */
    int64_t causal;
    int64_t stride, ystride, lstride; /* from token to token */
    int64_t qkv, y, lse;              /* first element of token 0; K and V follow H*D further */
    int64_t next;                     /* H*D */
    float scale;
};

INLINE struct head head_of(const struct cpu_args *a, int64_t item)
{
    const int64_t s = item / a->heads, h = item % a->heads, t = s * a->sequence;
    const int64_t next = a->heads * a->dim;
    return (struct head){.n = a->sequence,
                         .d = a->dim,
                         .dp = round_up(a->dim, VL),
                         .causal = a->causal,
                         .stride = 3 * next,
                         .ystride = next,
                         .lstride = a->heads,
                         .qkv = t * 3 * next + h * a->dim,
                         .y = t * next + h * a->dim,
                         .lse = t * a->heads + h,
                         .next = next,
                         .scale = 1.0f / sqrtf((float)a->dim)};
}

/* Keys of block k0 that some query below q_end may see. */
INLINE int64_t keys_seen(const struct head *h, int64_t k0, int64_t q_end)
{
    const int64_t end = h->causal ? q_end : h->n;
    return smaller(end - k0, BK);
}

INLINE float *take(char **p, int64_t floats)
{
    float *r = (float *)*p;
    *p += round_up(floats * 4, 64);
    return r;
}

/* --- forward --- */

struct forward {
    float *kt, *v;    /* [blocks][D][BK] transposed, [n][dp] */
    float *q, *s, *o; /* [BQ][dp], [BQ][BK], [BQ][dp] */
    float max[BQ], sum[BQ];
};

size_t KERNEL(attention_scratch)(const struct cpu_args *a)
{
    const int64_t dp = round_up(a->dim, VL), n = round_up(a->sequence, BK);
    return (size_t)(4 * (2 * n * dp + (2 * BQ + BK) * dp + BQ * BK) + 6 * 64);
}

INLINE void load_keys(struct forward *f, const struct head *h, const void *qkv, float *rows,
                      const uint32_t dt)
{
    for (int64_t k0 = 0; k0 < h->n; k0 += BK) {
        const int64_t n = smaller(h->n - k0, BK), at = h->qkv + k0 * h->stride + h->next;
        const char *k = (const char *)qkv + at * dt_size(dt);
        panel_copy(rows, h->dp, n, k, n, h->d, h->stride, 1.0f, dt);
        panel_transpose(f->kt + k0 * h->d, BK, rows, h->dp, n, h->d);
        panel_copy(f->v + k0 * h->dp, h->dp, BK, k + h->next * dt_size(dt), n, h->d, h->stride,
                   1.0f, dt);
    }
}

/* Row r of the scores becomes exp(s - max) over its `seen` keys and 0 beyond; the row's sum and
 * what it has gathered follow the new maximum. */
INLINE void softmax_row(struct forward *f, int r, int64_t seen, int64_t width, int64_t dp)
{
    float *s = f->s + r * BK;
    vf m = v_set1(-__builtin_inff());
    for (int64_t i = 0; i < width; i += VL) {
        vf x = v_select(v_first(seen - i), v_load(s + i), v_set1(-__builtin_inff()));
        v_store(s + i, x);
        m = v_max(x, m);
    }
    const float max = fmaxf(f->max[r], v_largest(m));
    vf sum = v_set1(0);
    for (int64_t i = 0; i < width; i += VL) {
        vf p = v_exp(v_load(s + i) - max);
        v_store(s + i, p);
        sum += p;
    }
    const float shrink = expf(f->max[r] - max);
    f->sum[r] = f->sum[r] * shrink + v_sum(sum);
    if (shrink != 1.0f)
        for (int64_t i = 0; i < dp; i += VL)
            v_store(f->o + r * dp + i, v_load(f->o + r * dp + i) * shrink);
    f->max[r] = max;
}

INLINE void visit_keys(struct forward *f, const struct head *h, int64_t q0, int64_t nq, int64_t k0)
{
    const int64_t mq = round_up(nq, MR), seen = keys_seen(h, k0, q0 + nq);
    const int64_t width = round_up(seen, NR * VL);
    panel_set(&(struct panel){.a = f->q,
                              .b = f->kt + k0 * h->d,
                              .c = f->s,
                              .m = mq,
                              .n = width,
                              .k = h->d,
                              .ra = h->dp,
                              .ka = 1,
                              .ldb = BK,
                              .ldc = BK});
    for (int r = 0; r < nq; r++) {
        const int64_t last = h->causal ? smaller(q0 + r + 1 - k0, seen) : seen;
        softmax_row(f, r, last, width, h->dp);
    }
    panel_add(&(struct panel){.a = f->s,
                              .b = f->v + k0 * h->dp,
                              .c = f->o,
                              .m = mq,
                              .n = h->dp,
                              .k = seen,
                              .ra = BK,
                              .ka = 1,
                              .ldb = h->dp,
                              .ldc = h->dp});
}

INLINE void forward_block(struct forward *f, const struct head *h, const struct cpu_job *j,
                          int64_t q0, const uint32_t dt)
{
    const int64_t nq = smaller(h->n - q0, BQ), k_end = h->causal ? q0 + nq : h->n;
    const char *q = (const char *)j->in[0] + (h->qkv + q0 * h->stride) * dt_size(dt);
    char *y = (char *)j->out[0] + (h->y + q0 * h->ystride) * dt_size(dt);
    float *lse = (float *)j->out[1] + h->lse + q0 * h->lstride;
    panel_copy(f->q, h->dp, BQ, q, nq, h->d, h->stride, h->scale, dt);
    memset(f->o, 0, (size_t)(BQ * h->dp) * sizeof *f->o);
    for (int r = 0; r < BQ; r++) {
        f->max[r] = -__builtin_inff();
        f->sum[r] = 0;
    }
    for (int64_t k0 = 0; k0 < k_end; k0 += BK)
        visit_keys(f, h, q0, nq, k0);
    for (int r = 0; r < nq; r++) {
        const float inverse = 1.0f / f->sum[r];
        for (int64_t i = 0; i < h->d; i += VL)
            v_put_n(y, r * h->ystride + i, h->d - i, dt, v_load(f->o + r * h->dp + i) * inverse);
        lse[r * h->lstride] = f->max[r] + logf(f->sum[r]);
    }
}

INLINE void forward_heads(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch,
                          const uint32_t dt)
{
    for (int64_t item = begin; item < end; item++) {
        const struct head h = head_of(j->a, item);
        const int64_t n = round_up(h.n, BK);
        char *p = scratch;
        struct forward f = {.kt = take(&p, n * h.d), .v = take(&p, n * h.dp)};
        f.q = take(&p, BQ * h.dp);
        f.s = take(&p, BQ * BK);
        f.o = take(&p, BQ * h.dp);
        load_keys(&f, &h, j->in[0], take(&p, BK * h.dp), dt);
        for (int64_t q0 = 0; q0 < h.n; q0 += BQ)
            forward_block(&f, &h, j, q0, dt);
    }
}

/* in: qkv [T,3,H,D]; out: y [T,H,D], lse [T,H]. Item: a head of a sequence. */
void KERNEL(attention)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
#define CALL(dt) forward_heads(j, begin, end, scratch, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

/* --- backward --- */

struct backward {
    float *k, *kt, *vt, *dk, *dv; /* a block of keys: [BK][dp], [D][BK] x 2, [BK][dp] x 2 */
    float *q, *dy, *p, *ds;       /* a block of queries: [BQ][dp] x 2, [BQ][BK] x 2 */
    float *dq, *delta;            /* the sequence: [n][dp], [n] */
};

size_t KERNEL(attention_dx_scratch)(const struct cpu_args *a)
{
    const int64_t dp = round_up(a->dim, VL), n = round_up(a->sequence, BQ);
    return (size_t)(4 * (5 * BK * dp + 2 * BQ * dp + 2 * BQ * BK + n * dp + n) + 11 * 64);
}

INLINE void backward_buffers(struct backward *b, const struct head *h, char *p)
{
    const int64_t n = round_up(h->n, BQ);
    b->k = take(&p, BK * h->dp);
    b->kt = take(&p, BK * h->d);
    b->vt = take(&p, BK * h->d);
    b->dk = take(&p, BK * h->dp);
    b->dv = take(&p, BK * h->dp);
    b->q = take(&p, BQ * h->dp);
    b->dy = take(&p, BQ * h->dp);
    b->p = take(&p, BQ * BK);
    b->ds = take(&p, BQ * BK);
    b->dq = take(&p, n * h->dp);
    b->delta = take(&p, n);
    memset(b->dq, 0, (size_t)(n * h->dp) * sizeof(float));
}

INLINE void row_deltas(struct backward *b, const struct head *h, const struct cpu_job *j,
                       const uint32_t dt)
{
    for (int64_t t = 0; t < h->n; t++) {
        const int64_t at = h->y + t * h->ystride;
        vf sum = v_set1(0);
        for (int64_t i = 0; i < h->d; i += VL)
            sum +=
                v_get_n(j->in[0], at + i, h->d - i, dt) * v_get_n(j->in[2], at + i, h->d - i, dt);
        b->delta[t] = v_sum(sum);
    }
}

/* P and dS of one row, in place of S and dP; zero beyond the keys that the row sees. */
INLINE void score_row(float *s, float *dp, int64_t seen, int64_t width, float lse, float delta)
{
    for (int64_t i = 0; i < width; i += VL) {
        const vi in = v_first(seen - i);
        vf p = (vf)((vi)v_exp(v_load(s + i) - lse) & in);
        vf ds = (vf)((vi)(p * (v_load(dp + i) - delta)) & in);
        v_store(s + i, p);
        v_store(dp + i, ds);
    }
}

INLINE void backward_scores(struct backward *b, const struct head *h, const struct cpu_job *j,
                            int64_t q0, int64_t nq, int64_t k0, int64_t seen)
{
    const int64_t mq = round_up(nq, MR), width = round_up(seen, NR * VL);
    const float *lse = (const float *)j->in[3] + h->lse + q0 * h->lstride;
    panel_set(&(struct panel){.a = b->q,
                              .b = b->kt,
                              .c = b->p,
                              .m = mq,
                              .n = width,
                              .k = h->d,
                              .ra = h->dp,
                              .ka = 1,
                              .ldb = BK,
                              .ldc = BK});
    panel_set(&(struct panel){.a = b->dy,
                              .b = b->vt,
                              .c = b->ds,
                              .m = mq,
                              .n = width,
                              .k = h->d,
                              .ra = h->dp,
                              .ka = 1,
                              .ldb = BK,
                              .ldc = BK});
    for (int64_t r = 0; r < nq; r++) {
        const int64_t last = h->causal ? smaller(q0 + r + 1 - k0, seen) : seen;
        score_row(b->p + r * BK, b->ds + r * BK, last, width, lse[r * h->lstride],
                  b->delta[q0 + r]);
    }
    const size_t rest = (size_t)((mq - nq) * BK) * sizeof(float);
    memset(b->p + nq * BK, 0, rest);
    memset(b->ds + nq * BK, 0, rest);
}

INLINE void visit_queries(struct backward *b, const struct head *h, const struct cpu_job *j,
                          int64_t q0, int64_t k0, const uint32_t dt)
{
    const int64_t nq = smaller(h->n - q0, BQ), dp = h->dp;
    const int64_t seen = keys_seen(h, k0, q0 + nq);
    if (seen <= 0)
        return;
    const char *q = (const char *)j->in[1] + (h->qkv + q0 * h->stride) * dt_size(dt);
    const char *dy = (const char *)j->in[0] + (h->y + q0 * h->ystride) * dt_size(dt);
    panel_copy(b->q, dp, BQ, q, nq, h->d, h->stride, h->scale, dt);
    panel_copy(b->dy, dp, BQ, dy, nq, h->d, h->ystride, 1.0f, dt);
    backward_scores(b, h, j, q0, nq, k0, seen);
    const int64_t mk = round_up(seen, MR);
    panel_add(&(struct panel){.a = b->p,
                              .b = b->dy,
                              .c = b->dv,
                              .m = mk,
                              .n = dp,
                              .k = nq,
                              .ra = 1,
                              .ka = BK,
                              .ldb = dp,
                              .ldc = dp});
    panel_add(&(struct panel){.a = b->ds,
                              .b = b->q,
                              .c = b->dk,
                              .m = mk,
                              .n = dp,
                              .k = nq,
                              .ra = 1,
                              .ka = BK,
                              .ldb = dp,
                              .ldc = dp});
    panel_add(&(struct panel){.a = b->ds,
                              .b = b->k,
                              .c = b->dq + q0 * dp,
                              .m = round_up(nq, MR),
                              .n = dp,
                              .k = seen,
                              .ra = BK,
                              .ka = 1,
                              .ldb = dp,
                              .ldc = dp});
}

INLINE void put_rows(void *to, int64_t at, const struct head *h, const float *from, int64_t n,
                     float scale, const uint32_t dt)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < h->d; i += VL)
            v_put_n(to, at + r * h->stride + i, h->d - i, dt, v_load(from + r * h->dp + i) * scale);
}

INLINE void backward_keys(struct backward *b, const struct head *h, const struct cpu_job *j,
                          int64_t k0, const uint32_t dt)
{
    const int64_t n = smaller(h->n - k0, BK), at = h->qkv + k0 * h->stride + h->next;
    const char *k = (const char *)j->in[1] + at * dt_size(dt);
    panel_copy(b->k, h->dp, BK, k + h->next * dt_size(dt), n, h->d, h->stride, 1.0f, dt);
    panel_transpose(b->vt, BK, b->k, h->dp, n, h->d);
    panel_copy(b->k, h->dp, BK, k, n, h->d, h->stride, 1.0f, dt);
    panel_transpose(b->kt, BK, b->k, h->dp, n, h->d);
    memset(b->dk, 0, (size_t)(BK * h->dp) * sizeof(float));
    memset(b->dv, 0, (size_t)(BK * h->dp) * sizeof(float));
    for (int64_t q0 = h->causal ? k0 / BQ * BQ : 0; q0 < h->n; q0 += BQ)
        visit_queries(b, h, j, q0, k0, dt);
    put_rows(j->out[0], at, h, b->dk, n, 1.0f, dt);
    put_rows(j->out[0], at + h->next, h, b->dv, n, 1.0f, dt);
}

INLINE void backward_heads(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch,
                           const uint32_t dt)
{
    for (int64_t item = begin; item < end; item++) {
        const struct head h = head_of(j->a, item);
        struct backward b;
        backward_buffers(&b, &h, scratch);
        row_deltas(&b, &h, j, dt);
        for (int64_t k0 = 0; k0 < h.n; k0 += BK)
            backward_keys(&b, &h, j, k0, dt);
        put_rows(j->out[0], h.qkv, &h, b.dq, h.n, h.scale, dt);
    }
}

/* in: dy [T,H,D], qkv [T,3,H,D], y [T,H,D], lse [T,H]; out: dqkv [T,3,H,D]. Item: a head of a
 * sequence. dqkv may lie over qkv only if nothing of the head is read again: it must not. */
void KERNEL(attention_dx)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
#define CALL(dt) backward_heads(j, begin, end, scratch, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
