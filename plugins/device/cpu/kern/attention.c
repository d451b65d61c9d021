/* kern/attention.c: flash attention: the forward pass without storing the score matrix.
 *
 * A thread processes one query head of a sequence; adjacent heads that share keys and values pack
 * them once. Each block of queries loops over blocks of keys (online softmax): a row keeps its
 * maximum and its sum of exponentials, and its accumulated output is rescaled when the maximum
 * grows. Blocks that the causal mask or `reach` cover completely are skipped. The backward pass
 * (attention_dx.c) needs only the log-sum-exp of each row (lse).
 *
 * All operands are packed first (panel.h): tokens are 3 * heads * dim elements apart, a stride that
 * causes cache-set conflicts. One thread does all work on a head, so results do not depend on the
 * number of threads. It loses when heads x sequences are fewer than the threads. */
#include "attention.h"
#include "impl.h"
#include "kern/simd/panel.h"
#include "kern/simd/vmath.h"
#include <math.h>

enum { BQ = 32, BK = 128 }; /* queries and keys per block */

struct forward {
    uint32_t *kt, *v; /* blocks of [units of D][BK], [units of n][dp] */
    uint32_t *q;      /* [BQ][dp] */
    float *s, *o;     /* [BQ][BK], [BQ][dp] */
    float *sum;       /* [BQ][VL]: a row's sum, one partial sum per lane */
    float max[BQ];
};

size_t KERNEL(attention_scratch)(const struct cpu_args *a)
{
    const int64_t dp = round_up(a->dim, VL), n = round_up(a->sequence, BK);
    return (size_t)(4 * (2 * n * dp + (2 * BQ + BK) * dp + BQ * BK + BQ * VL) + 7 * 64);
}

INLINE void load_keys(struct forward *f, const struct head *h, const void *const *in,
                      uint32_t *rows, const uint32_t dt)
{
    const int64_t u = units(h->d, dt);
    for (int64_t k0 = 0; k0 < h->n; k0 += BK) {
        const int64_t n = smaller(h->n - k0, BK);
        pack_rows(rows, h->dp, n, token_of(in, &h->k, k0, dt), n, h->d, h->k.stride, dt);
        pack_transpose(f->kt + k0 * u, BK, rows, h->dp, n, u, round_up(n, NR * VL));
        pack_columns(f->v + units(k0, dt) * h->dp, h->dp, n, token_of(in, &h->v, k0, dt), n, h->d,
                     h->v.stride, dt);
    }
}

/* A row's scores outside of its keys [from, seen) become -inf; returns the largest. */
INLINE float hide_keys(float *s, int64_t from, int64_t seen, int64_t width)
{
    const vf least = v_set1(-__builtin_inff());
    for (int64_t i = (seen > 0 ? seen : 0) / VL * VL; i < width; i += VL)
        v_store(s + i, v_select(v_first(seen - i), v_load(s + i), least));
    for (int64_t i = 0; i < from && i < width; i += VL)
        v_store(s + i, v_select(v_first(from - i), least, v_load(s + i)));
    vf m = least;
    for (int64_t i = 0; i < width; i += VL)
        m = v_max(v_load(s + i), m);
    return v_largest(m);
}

/* Raise the rows' maxima to those of a block's scores, largest[BQ]; rescale their sums and
 * accumulated outputs to them. A row that has seen no key keeps -inf, and its sums are zero. */
INLINE void rescale(struct forward *f, const float *largest, const struct head *h)
{
    float shrink[BQ];
    for (int r = 0; r < BQ; r += VL) {
        const vf old = v_load(f->max + r);
        const vf new = v_max(v_load(largest + r) * h->scale, old);
        v_store(shrink + r,
                v_exp_low(old - v_select(new == v_set1(-__builtin_inff()), v_set1(0), new)));
        v_store(f->max + r, new);
    }
    for (int r = 0; r < BQ; r++) {
        v_store(f->sum + r * VL, v_load(f->sum + r * VL) * shrink[r]);
        for (int64_t i = 0; i < h->dp; i += VL)
            v_store(f->o + r * h->dp + i, v_load(f->o + r * h->dp + i) * shrink[r]);
    }
}

/* Replace row r of the scores by exp(scale * s - max), as units along the row, and add it up. */
INLINE void exp_row(struct forward *f, int r, int64_t width, float scale, const uint32_t dt)
{
    const float max = f->max[r] == -__builtin_inff() ? 0 : f->max[r];
    float *s = f->s + r * BK;
    vf total = v_load(f->sum + r * VL);
    for (int64_t i = 0; i < width; i += VL) {
        vf p = v_exp_low(v_fma(v_load(s + i), v_set1(scale), v_set1(-max)));
        total += p;
        if (dt == WEFT_BF16)
            v_store_bf16((uint16_t *)s + i, p);
        else
            v_store(s + i, p);
    }
    v_store(f->sum + r * VL, total);
}

INLINE void visit_keys(struct forward *f, const struct head *h, int64_t q0, int64_t nq, int64_t k0,
                       const uint32_t dt)
{
    const int64_t mq = round_up(nq, MR), seen = smaller((h->causal ? q0 + nq : h->n) - k0, BK);
    const int64_t width = round_up(seen, NR * VL), u = units(h->d, dt);
    panel_set(&(struct panel){.a = f->q,
                              .b = f->kt + k0 * u,
                              .c = f->s,
                              .m = mq,
                              .n = width,
                              .k = u,
                              .ra = h->dp,
                              .ka = 1,
                              .ldb = BK,
                              .ldc = BK},
              dt);
    float largest[BQ];
    for (int r = 0; r < BQ; r++)
        largest[r] = r < nq ? hide_keys(f->s + r * BK, first_key(h, q0 + r) - k0,
                                        h->causal ? smaller(q0 + r + 1 - k0, seen) : seen, width)
                            : 0;
    rescale(f, largest, h);
    for (int r = 0; r < nq; r++)
        exp_row(f, r, width, h->scale, dt);
    panel_add(&(struct panel){.a = (const uint32_t *)f->s,
                              .b = f->v + units(k0, dt) * h->dp,
                              .c = f->o,
                              .m = mq,
                              .n = h->dp,
                              .k = units(seen, dt),
                              .ra = BK,
                              .ka = 1,
                              .ldb = h->dp,
                              .ldc = h->dp},
              dt);
}

INLINE void finish_rows(const struct forward *f, const struct head *h, const struct cpu_job *j,
                        int64_t q0, int64_t nq, const uint32_t dt)
{
    char *y = (char *)j->out[0] + (h->y.at + q0 * h->y.stride) * dt_size(dt);
    float *lse = (float *)j->out[1] + h->lse + q0 * h->lstride;
    for (int64_t r = 0; r < nq; r++) {
        const float sum = v_sum(v_load(f->sum + r * VL)), inverse = 1.0f / sum;
        for (int64_t i = 0; i < h->d; i += VL)
            v_put_n(y, r * h->y.stride + i, h->d - i, dt, v_load(f->o + r * h->dp + i) * inverse);
        lse[r * h->lstride] = f->max[r] + logf(sum);
    }
}

INLINE void forward_block(struct forward *f, const struct head *h, const struct cpu_job *j,
                          int64_t q0, const uint32_t dt)
{
    const int64_t nq = smaller(h->n - q0, BQ), k_end = h->causal ? q0 + nq : h->n;
    pack_rows(f->q, h->dp, round_up(nq, MR), token_of(j->in, &h->q, q0, dt), nq, h->d, h->q.stride,
              dt);
    memset(f->o, 0, (size_t)(BQ * h->dp) * sizeof *f->o);
    memset(f->sum, 0, (size_t)(BQ * VL) * sizeof *f->sum);
    for (int r = 0; r < BQ; r++)
        f->max[r] = -__builtin_inff();
    for (int64_t k0 = first_key_of(h, q0, nq) / BK * BK; k0 < k_end; k0 += BK)
        visit_keys(f, h, q0, nq, k0, dt);
    finish_rows(f, h, j, q0, nq, dt);
}

INLINE void forward_heads(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch,
                          const uint32_t dt)
{
    const int64_t heads = j->a->heads, n = round_up(j->a->sequence, BK);
    const int64_t d = j->a->dim, dp = round_up(d, VL);
    struct forward f = {.kt = take(&scratch, n * d), .v = take(&scratch, n * dp)};
    f.q = take(&scratch, BQ * dp);
    f.s = take(&scratch, BQ * BK);
    f.o = take(&scratch, BQ * dp);
    f.sum = take(&scratch, BQ * VL);
    uint32_t *rows = take(&scratch, BK * dp);
    for (int64_t item = begin, packed = -1; item < end; item++) {
        const struct head h = head_of(j, item / heads, item % heads);
        if (h.k.at != packed)
            load_keys(&f, &h, j->in, rows, dt);
        packed = h.k.at;
        for (int64_t q0 = 0; q0 < h.n; q0 += BQ)
            forward_block(&f, &h, j, q0, dt);
    }
}

/* in: qkv [T,3,H,D], or q [T,H,D], k [T,G,D], v [T,G,D]; maybe reach [T]; out: y [T,H,D], lse
 * [T,H]. Item: a query head of a sequence. */
void KERNEL(attention)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    tiles_begin();
#define CALL(dt) forward_heads(j, begin, end, scratch, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
    tiles_end();
}
