/* kern/simd/panel.h: small matrix products (GEMM) on buffers that each thread packs.
 *
 * C [m,n] = or += A [m,k] B [k,n] in fp32, m a multiple of MR and n of VL. Operands consist of
 * 32-bit units: one fp32 number, or two bf16 adjacent along k; k counts units, so one loop handles
 * both types. Packing widens fp16 to fp32 units, since no fp16 instruction accumulates in fp32. A
 * tile of MR x NR vectors of C stays in registers over the loop on k; a strip of B, k x NR vectors,
 * stays in L1 over the loop on m. Units of A are broadcast one at a time, so A may be transposed:
 * (ra, ka) are its strides. */
#ifndef CPU_PANEL_H
#define CPU_PANEL_H

#include "kern/simd/types.h"

struct panel {
    const uint32_t *a, *b;
    float *c;
    int64_t m, n, k;
    int64_t ra, ka; /* A's strides: between rows, between units along k */
    int64_t ldb, ldc;
};

INLINE vu vu_load(const uint32_t *p)
{
    return (vu)v_load((const float *)p);
}

INLINE void vu_store(uint32_t *p, vu x)
{
    v_store((float *)p, (vf)x);
}

INLINE void panel_tile(const uint32_t *a, const uint32_t *b, float *c, const struct panel *p,
                       const int nr, const int add, const uint32_t dt)
{
    vf acc[MR][NR];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nr; v++)
            acc[r][v] = add ? v_load(c + r * p->ldc + v * VL) : v_set1(0);
    for (int64_t k = 0; k < p->k; k++) {
        vu bk[NR];
        for (int v = 0; v < nr; v++)
            bk[v] = vu_load(b + k * p->ldb + v * VL);
        for (int r = 0; r < MR; r++) {
            vu ar = vu_set1(a[r * p->ra + k * p->ka]);
            for (int v = 0; v < nr; v++)
                acc[r][v] = dt != WEFT_BF16 ? v_fma((vf)ar, (vf)bk[v], acc[r][v])
                                            : v_dot_bf16(ar, bk[v], acc[r][v]);
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nr; v++)
            v_store(c + r * p->ldc + v * VL, acc[r][v]);
}

INLINE void panel_strip(const struct panel *p, int64_t n0, const int nr, const int add,
                        const uint32_t dt)
{
    for (int64_t m0 = 0; m0 < p->m; m0 += MR)
        panel_tile(p->a + m0 * p->ra, p->b + n0, p->c + m0 * p->ldc + n0, p, nr, add, dt);
}

INLINE void panel_product(const struct panel *p, const int add, const uint32_t dt)
{
    int64_t n0 = 0;
    for (; n0 + NR * VL <= p->n; n0 += NR * VL)
        panel_strip(p, n0, NR, add, dt);
    for (; n0 < p->n; n0 += VL)
        panel_strip(p, n0, 1, add, dt);
}

/* Transpose a tile of VL x VL: rows k and k + VL / 2 are interleaved, log2(VL) times. */
INLINE void transpose_tile(vf tile[VL])
{
    for (int step = 1; step < VL; step *= 2) {
        vf to[VL];
        for (int k = 0; k < VL / 2; k++) {
            to[2 * k] = v_zip_low(tile[k], tile[k + VL / 2]);
            to[2 * k + 1] = v_zip_high(tile[k], tile[k + VL / 2]);
        }
        memcpy(tile, to, sizeof to);
    }
}

#ifdef CPU_TILES
#include "kern/simd/tiles.h"
#else
INLINE void tiles_begin(void)
{
}

INLINE void tiles_end(void)
{
}

INLINE void tiles_product(const struct panel *p, const int add)
{
    panel_product(p, add, WEFT_BF16);
}
#endif

/* Called often and from many places: four functions, not inlined. Those of bf16 are called between
 * tiles_begin() and tiles_end() of the thread. */
#define PANEL_ENTRY(name, product, ...)                                                            \
    static __attribute__((noinline, unused)) void name(const struct panel *p)                      \
    {                                                                                              \
        product(p, __VA_ARGS__);                                                                   \
    }
PANEL_ENTRY(panel_set_f32, panel_product, 0, WEFT_F32)
PANEL_ENTRY(panel_add_f32, panel_product, 1, WEFT_F32)
PANEL_ENTRY(panel_set_bf16, tiles_product, 0)
PANEL_ENTRY(panel_add_bf16, tiles_product, 1)

INLINE void panel_set(const struct panel *p, const uint32_t dt)
{
    dt != WEFT_BF16 ? panel_set_f32(p) : panel_set_bf16(p);
}

INLINE void panel_add(const struct panel *p, const uint32_t dt)
{
    dt != WEFT_BF16 ? panel_add_f32(p) : panel_add_bf16(p);
}

enum { AHEAD = 32 }; /* rows; this is measured */

/* Ask for row r + AHEAD of rows of d elements, `stride` apart. They are a head's part of each
 * token, which the processor's own prefetching does not follow. The last rows of a block ask for
 * the next block's. */
INLINE void prefetch_row(const void *from, int64_t r, int64_t d, int64_t stride, const uint32_t dt)
{
    for (int64_t i = 0; i < d * dt_size(dt); i += 64)
        prefetch(from, (r + AHEAD) * stride * dt_size(dt) + i);
}

/* Number of units that hold n elements along k. */
INLINE int64_t units(int64_t n, const uint32_t dt)
{
    return dt != WEFT_BF16 ? n : (n + 1) / 2;
}

/* Pack rows of d elements, `stride` apart, for A with k along the row. to: [n][ld] units; an odd
 * last bf16 is padded with zero; rows n to np are zero. */
INLINE void pack_rows(uint32_t *to, int64_t ld, int64_t np, const void *from, int64_t n, int64_t d,
                      int64_t stride, const uint32_t dt)
{
    const int64_t bytes = d * dt_size(dt), whole = bytes / sizeof(vf) * sizeof(vf);
    for (int64_t r = 0; r < n; r++) {
        const char *row = (const char *)from + r * stride * dt_size(dt);
        prefetch_row(from, r, d, stride, dt);
        if (dt == WEFT_F16) {
            for (int64_t i = 0; i < d; i += VL)
                v_store((float *)(to + r * ld + i), v_get_n(row, i, d - i, dt));
            continue;
        }
        to[r * ld + units(d, dt) - 1] = 0;
        for (int64_t i = 0; i < whole; i += sizeof(vf))
            v_store((float *)(to + r * ld + i / 4), v_load((const float *)(row + i)));
        if (whole < bytes)
            memcpy(to + r * ld + whole / 4, row + whole, (size_t)(bytes - whole));
    }
    memset(to + n * ld, 0, (size_t)((np - n) * ld) * sizeof *to);
}

/* Pack the same rows for B with k across rows. to: [units of np][dp], zero beyond n rows and d
 * columns; dp is d rounded up to vectors. */
INLINE void pack_columns(uint32_t *to, int64_t dp, int64_t np, const void *from, int64_t n,
                         int64_t d, int64_t stride, const uint32_t dt)
{
    const int64_t step = dt != WEFT_BF16 ? 1 : 2;
    for (int64_t r = 0; r < np; r += step) {
        for (int64_t k = r; k < r + step; k++)
            prefetch_row(from, k, d, stride, dt);
        for (int64_t i = 0; i < dp; i += VL) {
            vu low = r < n ? (vu)v_get_n(from, r * stride + i, d - i, dt) : vu_set1(0);
            vu high = r + 1 < n ? (vu)v_get_n(from, (r + 1) * stride + i, d - i, dt) : vu_set1(0);
            vu_store(to + r / step * dp + i,
                     dt != WEFT_BF16 ? low : low >> 16 | (high & 0xffff0000u));
        }
    }
}

/* Transpose n rows of `u` units for B. from: rows as long as u rounded up to vectors; to: [u][ldt],
 * zero in columns n to w, a multiple of VL. */
static inline void pack_transpose(uint32_t *to, int64_t ldt, const uint32_t *from, int64_t ld,
                                  int64_t n, int64_t u, int64_t w)
{
    for (int64_t i = 0; i < u; i += VL)
        for (int64_t r = 0; r < w; r += VL) {
            vf tile[VL];
            for (int k = 0; k < VL; k++)
                tile[k] = r + k < n ? v_load((const float *)(from + (r + k) * ld + i)) : v_set1(0);
            transpose_tile(tile);
            for (int k = 0; k < VL && i + k < u; k++)
                v_store((float *)(to + (i + k) * ldt + r), tile[k]);
        }
}

#endif
