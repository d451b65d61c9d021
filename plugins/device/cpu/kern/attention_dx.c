/* kern/attention_dx.c: flash attention: the backward pass without storing the score matrix.
 *
 * The outer loop is over blocks of keys, so dK and dV of a block are finished in one iteration; dQ
 * accumulates in a buffer of the sequence's length. With P = exp(scale S - lse) and, per row,
 * delta = sum(dy * y):
 *
 *   S = Q K'   dP = dy V'   dS = P * (dP - delta)   dV = P' dy   dK = scale dS' Q   dQ = scale dS K
 *
 * One thread processes all query heads that share a key/value head, in order, so that sums over
 * these heads have a fixed order; its dQ buffer holds all of them.
 *
 * There are five products per pair of blocks. The two that sum over queries use P and dS as units
 * across queries; dQ uses dS as units along keys (panel.h defines units). Except for bf16 both
 * forms are the plain rows. */
#include "attention.h"
#include "impl.h"
#include "kern/simd/panel.h"
#include "kern/simd/vmath.h"

#ifdef CPU_TILES
enum { BQ = 64 }; /* queries per block, at most */
#else
enum { BQ = 32 };
#endif
enum { BK = 256 }; /* keys per block */

/* Queries per block. Tiles load and store dK and dV once a block, so that larger blocks pay;
 * elsewhere smaller ones leave more of the first-level cache. */
INLINE int64_t queries(const uint32_t dt)
{
    return dt == WEFT_BF16 ? BQ : 32;
}

struct backward {
    uint32_t *k, *kt, *vt; /* a block of keys: [units of BK][dp], [units of D][BK] twice */
    float *dk, *dv;        /* [BK][dp] */
    uint32_t *q, *dy;      /* a block of queries: [BQ][dp], units along D */
    uint32_t *qc, *dyc;    /* the same, units across queries; aliases of q and dy unless bf16 */
    float *p, *ds;         /* [BQ][BK] */
    uint32_t *pc, *dsc;    /* units across queries; aliases of p and ds unless bf16 */
    float *dq;             /* whole sequence, per query head: [n][dp] */
    float *delta, *lse;    /* the same: [n] each */
};

INLINE int64_t sharers(const struct cpu_args *a)
{
    return a->heads / a->kv_heads;
}

size_t KERNEL(attention_dx_scratch)(const struct cpu_args *a)
{
    const int64_t dp = round_up(a->dim, VL), n = round_up(a->sequence, BQ);
    return (size_t)(4 * (5 * BK * dp + 4 * BQ * dp + 4 * BQ * BK + sharers(a) * n * (dp + 2)) +
                    16 * 64);
}

INLINE void take_buffers(struct backward *b, const struct cpu_args *a, const struct head *h,
                         char *p, const uint32_t dt)
{
    const int64_t n = sharers(a) * round_up(h->n, BQ);
    const int same = dt != WEFT_BF16;
    b->k = take(&p, BK * h->dp);
    b->kt = take(&p, BK * h->d);
    b->vt = take(&p, BK * h->d);
    b->dk = take(&p, BK * h->dp);
    b->dv = take(&p, BK * h->dp);
    b->q = take(&p, BQ * h->dp);
    b->dy = take(&p, BQ * h->dp);
    b->p = take(&p, BQ * BK);
    b->ds = take(&p, BQ * BK);
    b->qc = same ? b->q : take(&p, BQ * h->dp);
    b->dyc = same ? b->dy : take(&p, BQ * h->dp);
    b->pc = same ? (uint32_t *)b->p : take(&p, BQ * BK);
    b->dsc = same ? (uint32_t *)b->ds : take(&p, BQ * BK);
    b->dq = take(&p, n * h->dp);
    b->delta = take(&p, n);
    b->lse = take(&p, n);
    memset(b->dq, 0, (size_t)(n * h->dp) * sizeof(float));
}

/* Compute each row's delta, and gather its lse. */
INLINE void row_sums(struct backward *b, const struct head *h, const struct cpu_job *j,
                     const uint32_t dt)
{
    const char *dy = token_of(j->in, &h->y, 0, dt);
    const char *y = token_of(j->in + (j->a->fused ? 2 : 4), &h->y, 0, dt);
    const float *lse = (const float *)j->in[j->a->fused ? 3 : 5] + h->lse;
    for (int64_t t = 0; t < h->n; t++) {
        const int64_t at = t * h->y.stride;
        prefetch_row(dy, t, h->d, h->y.stride, dt);
        prefetch_row(y, t, h->d, h->y.stride, dt);
        vf sum = v_set1(0);
        for (int64_t i = 0; i < h->d; i += VL)
            sum += v_get_n(dy, at + i, h->d - i, dt) * v_get_n(y, at + i, h->d - i, dt);
        b->delta[t] = v_sum(sum);
        b->lse[t] = lse[t * h->lstride];
    }
}

/* Parameters that turn a row of scores into P and dS; keys outside of [from, seen) become zero. */
struct row {
    int64_t from, seen;
    float scale, lse, delta;
};

/* One vector each of P and dS. */
struct scores {
    vf p, ds;
};

INLINE struct scores scores_at(const float *s, const float *dp, int64_t i, const struct row *r)
{
    vf p = v_exp_low(v_fma(v_load(s + i), v_set1(r->scale), v_set1(-r->lse)));
    vf ds = p * (v_load(dp + i) - r->delta);
    if (i >= r->from && i + VL <= r->seen)
        return (struct scores){p, ds};
    const vi in = v_first(r->seen - i) & ~v_first(r->from - i);
    return (struct scores){(vf)((vi)p & in), (vf)((vi)ds & in)};
}

/* Compute a row of P and dS in place of S and dP. */
INLINE void score_row(float *s, float *dp, int64_t width, const struct row *r)
{
    for (int64_t i = 0; i < width; i += VL) {
        const struct scores x = scores_at(s, dp, i, r);
        v_store(s + i, x.p);
        v_store(dp + i, x.ds);
    }
}

/* Two rows in bf16, BK apart: dS along keys in place of dP; P and dS across the two into pc and
 * dsc. */
INLINE void score_pair(const float *s, float *dp, uint32_t *pc, uint32_t *dsc, int64_t width,
                       const struct row *r)
{
    for (int64_t i = 0; i < width; i += VL) {
        const struct scores x = scores_at(s, dp, i, r), y = scores_at(s + BK, dp + BK, i, r + 1);
        vu_store(pc + i, v_round_bf16(x.p) | v_round_bf16(y.p) << 16);
        vu_store(dsc + i, v_round_bf16(x.ds) | v_round_bf16(y.ds) << 16);
        v_store_bf16((uint16_t *)dp + i, x.ds);
        v_store_bf16((uint16_t *)(dp + BK) + i, y.ds);
    }
}

/* Compute P and dS of a pair of blocks and their packed forms; rows that pad tiles are zero. */
INLINE void make_scores(struct backward *b, const struct head *h, int64_t q0, int64_t nq,
                        int64_t k0, int64_t seen, const uint32_t dt)
{
    const int64_t mq = round_up(nq, MR), width = round_up(seen, NR * VL), u = units(h->d, dt);
    struct panel s = {.a = b->q,
                      .b = b->kt,
                      .c = b->p,
                      .m = mq,
                      .n = width,
                      .k = u,
                      .ra = h->dp,
                      .ka = 1,
                      .ldb = BK,
                      .ldc = BK};
    panel_set(&s, dt);
    s.a = b->dy;
    s.b = b->vt;
    s.c = b->ds;
    panel_set(&s, dt);
    struct row rows[BQ + MR];
    for (int64_t r = 0; r < mq; r++)
        rows[r] = r >= nq ? (struct row){0}
                          : (struct row){first_key(h, q0 + r) - k0,
                                         h->causal ? smaller(q0 + r + 1 - k0, seen) : seen,
                                         h->scale, b->lse[q0 + r], b->delta[q0 + r]};
    for (int64_t r = 0; r < mq && dt != WEFT_BF16; r++)
        score_row(b->p + r * BK, b->ds + r * BK, width, &rows[r]);
    for (int64_t r = 0; r < mq && dt == WEFT_BF16; r += 2)
        score_pair(b->p + r * BK, b->ds + r * BK, b->pc + r / 2 * BK, b->dsc + r / 2 * BK, width,
                   &rows[r]);
}

INLINE void load_queries(struct backward *b, const struct head *h, const struct cpu_job *j,
                         int64_t q0, int64_t nq, const uint32_t dt)
{
    const char *q = token_of(j->in + 1, &h->q, q0, dt), *dy = token_of(j->in, &h->y, q0, dt);
    const int64_t mq = round_up(nq, MR);
    pack_columns(b->qc, h->dp, mq, q, nq, h->d, h->q.stride, dt);
    pack_columns(b->dyc, h->dp, mq, dy, nq, h->d, h->y.stride, dt);
    if (dt != WEFT_BF16)
        return;
    pack_rows(b->q, h->dp, mq, q, nq, h->d, h->q.stride, dt);
    pack_rows(b->dy, h->dp, mq, dy, nq, h->d, h->y.stride, dt);
}

INLINE void visit_queries(struct backward *b, const struct head *h, const struct cpu_job *j,
                          int64_t q0, int64_t k0, const uint32_t dt)
{
    const int64_t nq = smaller(h->n - q0, queries(dt)), dp = h->dp;
    const int64_t seen = smaller((h->causal ? q0 + nq : h->n) - k0, BK);
    if (first_key_of(h, q0, nq) >= k0 + BK)
        return;
    load_queries(b, h, j, q0, nq, dt);
    make_scores(b, h, q0, nq, k0, seen, dt);
    struct panel g = {.a = b->pc,
                      .b = b->dyc,
                      .c = b->dv,
                      .m = round_up(seen, MR),
                      .n = dp,
                      .k = units(nq, dt),
                      .ra = 1,
                      .ka = BK,
                      .ldb = dp,
                      .ldc = dp};
    panel_add(&g, dt);
    g.a = b->dsc;
    g.b = b->qc;
    g.c = b->dk;
    panel_add(&g, dt);
    panel_add(&(struct panel){.a = (const uint32_t *)b->ds,
                              .b = b->k,
                              .c = b->dq + q0 * dp,
                              .m = round_up(nq, MR),
                              .n = dp,
                              .k = units(seen, dt),
                              .ra = BK,
                              .ka = 1,
                              .ldb = dp,
                              .ldc = dp},
              dt);
}

/* Write rows [t, t + n) of a gradient, which has its operand's layout. */
INLINE void put_rows(void *const *out, const struct rows *to, int64_t t, const struct head *h,
                     const float *from, int64_t n, float scale, const uint32_t dt)
{
    void *p = out[to->operand];
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < h->d; i += VL)
            v_put_n(p, to->at + (t + r) * to->stride + i, h->d - i, dt,
                    v_load(from + r * h->dp + i) * scale);
}

/* Pack K and V of a block for the products; dk is scratch for the transposes, then zeroed. */
INLINE void load_keys(struct backward *b, const struct head *h, const char *k, const char *v,
                      int64_t n, const uint32_t dt)
{
    const int64_t u = units(h->d, dt);
    uint32_t *rows = (uint32_t *)b->dk;
    pack_rows(rows, h->dp, n, k, n, h->d, h->k.stride, dt);
    pack_transpose(b->kt, BK, rows, h->dp, n, u, round_up(n, NR * VL));
    pack_rows(rows, h->dp, n, v, n, h->d, h->v.stride, dt);
    pack_transpose(b->vt, BK, rows, h->dp, n, u, round_up(n, NR * VL));
    pack_columns(b->k, h->dp, n, k, n, h->d, h->k.stride, dt);
    memset(b->dk, 0, (size_t)(round_up(n, MR) * h->dp) * sizeof(float));
    memset(b->dv, 0, (size_t)(round_up(n, MR) * h->dp) * sizeof(float));
}

/* `b` with the dq, delta and lse buffers of head number `m` of those that share the keys. */
INLINE struct backward share_of(const struct backward *b, const struct head *h, int64_t m)
{
    const int64_t n = round_up(h->n, BQ);
    struct backward r = *b;
    r.dq += m * n * h->dp;
    r.delta += m * n;
    r.lse += m * n;
    return r;
}

/* Process all queries against one block of keys, then write dK and dV of the block. */
INLINE void visit_keys(struct backward *b, const struct cpu_job *j, int64_t s, int64_t h0,
                       int64_t k0, const uint32_t dt)
{
    const struct head first = head_of(j, s, h0);
    const int64_t n = smaller(first.n - k0, BK);
    load_keys(b, &first, token_of(j->in + 1, &first.k, k0, dt),
              token_of(j->in + 1, &first.v, k0, dt), n, dt);
    const int64_t step = queries(dt);
    for (int64_t m = 0; m < sharers(j->a); m++) {
        const struct head h = head_of(j, s, h0 + m);
        struct backward share = share_of(b, &h, m);
        for (int64_t q0 = h.causal ? k0 / step * step : 0; q0 < h.n; q0 += step)
            visit_queries(&share, &h, j, q0, k0, dt);
    }
    put_rows(j->out, &first.k, k0, &first, b->dk, n, first.scale, dt);
    put_rows(j->out, &first.v, k0, &first, b->dv, n, 1.0f, dt);
}

INLINE void backward_heads(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch,
                           const uint32_t dt)
{
    const int64_t kv = j->a->kv_heads, group = sharers(j->a);
    for (int64_t item = begin; item < end; item++) {
        const int64_t s = item / kv, h0 = item % kv * group;
        const struct head first = head_of(j, s, h0);
        struct backward b;
        take_buffers(&b, j->a, &first, scratch, dt);
        for (int64_t m = 0; m < group; m++) {
            const struct head h = head_of(j, s, h0 + m);
            struct backward share = share_of(&b, &h, m);
            row_sums(&share, &h, j, dt);
        }
        for (int64_t k0 = 0; k0 < first.n; k0 += BK)
            visit_keys(&b, j, s, h0, k0, dt);
        for (int64_t m = 0; m < group; m++) {
            const struct head h = head_of(j, s, h0 + m);
            put_rows(j->out, &h.q, 0, &h, share_of(&b, &h, m).dq, h.n, h.scale, dt);
        }
    }
}

/* in: dy [T,H,D], the operands of attention, y [T,H,D], lse [T,H], maybe reach [T]; out: the
 * gradient of each operand, which must not alias any of them. Item: a key/value head of a sequence.
 */
void KERNEL(attention_dx)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    tiles_begin();
#define CALL(dt) backward_heads(j, begin, end, scratch, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
    tiles_end();
}
