/* kern/panel.h: small fp32 matrix products on buffers that a thread has copied for itself.
 *
 * C [m,n] = or += A [m,k] B [k,n], m a multiple of MR and n of VL. A tile of MR x NR vectors of C
 * stays in registers while k runs; a strip of B, k x NR vectors, stays in L1 while m runs. Elements
 * of A are broadcast one at a time, so A may be a transpose: (ra, ka) are its strides. */
#ifndef CPU_PANEL_H
#define CPU_PANEL_H

#include "types.h"

struct panel {
    const float *a, *b;
    float *c;
    int64_t m, n, k;
    int64_t ra, ka; /* A's strides: from row to row, from k to k */
    int64_t ldb, ldc;
};

INLINE void panel_tile(const float *a, const float *b, float *c, const struct panel *p,
                       const int nr, const int add)
{
    vf acc[MR][NR];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nr; v++)
            acc[r][v] = add ? v_load(c + r * p->ldc + v * VL) : v_set1(0);
    for (int64_t k = 0; k < p->k; k++) {
        vf bk[NR];
        for (int v = 0; v < nr; v++)
            bk[v] = v_load(b + k * p->ldb + v * VL);
        for (int r = 0; r < MR; r++) {
            vf ar = v_set1(a[r * p->ra + k * p->ka]);
            for (int v = 0; v < nr; v++)
                acc[r][v] = v_fma(ar, bk[v], acc[r][v]);
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nr; v++)
            v_store(c + r * p->ldc + v * VL, acc[r][v]);
}

INLINE void panel_strip(const struct panel *p, int64_t n0, const int nr, const int add)
{
    for (int64_t m0 = 0; m0 < p->m; m0 += MR)
        panel_tile(p->a + m0 * p->ra, p->b + n0, p->c + m0 * p->ldc + n0, p, nr, add);
}

INLINE void panel_product(const struct panel *p, const int add)
{
    int64_t n0 = 0;
    for (; n0 + NR * VL <= p->n; n0 += NR * VL)
        panel_strip(p, n0, NR, add);
    for (; n0 < p->n; n0 += VL)
        panel_strip(p, n0, 1, add);
}

static __attribute__((noinline, unused)) void panel_set(const struct panel *p)
{
    panel_product(p, 0);
}

static __attribute__((noinline, unused)) void panel_add(const struct panel *p)
{
    panel_product(p, 1);
}

/* Rows of d elements, `stride` elements apart, to fp32 rows of dp (zero beyond d; dp is d
 * rounded up to vectors), times `scale`;
 * rows from n up to np become zero. */
INLINE void panel_copy(float *to, int64_t dp, int64_t np, const void *from, int64_t n, int64_t d,
                       int64_t stride, float scale, const uint32_t dt)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < d; i += VL)
            v_store(to + r * dp + i, v_get_n(from, r * stride + i, d - i, dt) * scale);
    memset(to + n * dp, 0, (size_t)((np - n) * dp) * sizeof *to);
}

/* The transpose of n fp32 rows of dp: to [d][w], zero in the columns from n up to w. */
static inline void panel_transpose(float *to, int64_t w, const float *from, int64_t dp, int64_t n,
                                   int64_t d)
{
    for (int64_t i = 0; i < d; i++) {
        for (int64_t r = 0; r < n; r++)
            to[i * w + r] = from[r * dp + i];
        for (int64_t r = n; r < w; r++)
            to[i * w + r] = 0;
    }
}

#endif
