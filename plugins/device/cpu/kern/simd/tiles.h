/* kern/simd/tiles.h: panels of bf16 by the tiles of AMX; a part of panel.h.
 *
 * A tile has 16 rows of 16 units; one instruction multiplies two and adds the product to a third,
 * 16 x 16 x 16 units, where the dot product of v4bf16 does 16 units. Registers hold 2 x 2 tiles of
 * C, two of A and two of B. Subnormals count as zero, as in vec_v4bf16.h. A thread needs the
 * configuration of its tiles before its first panel (tiles_begin). It loses where few units are
 * summed: then C is loaded and stored for little work. */
#ifndef CPU_TILES_H
#define CPU_TILES_H

enum { TILE = 16 }; /* rows, and units of a row */
_Static_assert((int)TILE == VL && (int)TILE % MR == 0,
               "vectors transpose a tile, and do the rest of a panel");

/* All eight tiles are whole: what is left over is done by vectors. */
INLINE void tiles_begin(void)
{
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } all = {.palette = 1,
             .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
             .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
}

INLINE void tiles_end(void)
{
    _tile_release();
}

/* The compiler does not know that tiles are loaded from memory and stored to it. */
INLINE void tiles_fence(void)
{
    __asm__ volatile("" ::: "memory");
}

/* A's tile of units k on, in `to` where it is transposed (ra is 1). */
INLINE const uint32_t *tile_of_a(const struct panel *p, const uint32_t *a, int64_t k, vf *to)
{
    if (p->ka == 1)
        return a + k;
    for (int i = 0; i < TILE; i++)
        to[i] = v_load((const float *)(a + (k + i) * p->ka));
    transpose_tile(to);
    return (const uint32_t *)to;
}

#define TILE_LOAD(number, from, stride) _tile_loadd(number, from, (stride) * (int64_t)sizeof(float))
#define TILE_STORE(number, to, stride) _tile_stored(number, to, (stride) * (int64_t)sizeof(float))
#define TILE_ZERO(number, at, stride) _tile_zero(number)
#define EACH_OF_C(action)                                                                          \
    do {                                                                                           \
        action(0, c, p->ldc);                                                                      \
        if (nt > 1)                                                                                \
            action(1, c + TILE, p->ldc);                                                           \
        if (mt > 1)                                                                                \
            action(2, c + TILE * p->ldc, p->ldc);                                                  \
        if (mt > 1 && nt > 1)                                                                      \
            action(3, c + TILE * p->ldc + TILE, p->ldc);                                           \
    } while (0)

/* C [16 mt, 16 nt] from `units`, a multiple of 16, along k. */
INLINE void tiles_block(const struct panel *p, const uint32_t *a, const uint32_t *b, float *c,
                        const int mt, const int nt, int64_t units, const int add)
{
    const int64_t lda = p->ka == 1 ? p->ra : TILE;
    vf turned[2][TILE];
    if (add) {
        EACH_OF_C(TILE_LOAD);
    } else {
        EACH_OF_C(TILE_ZERO);
    }
    for (int64_t k = 0; k < units; k += TILE) {
        const uint32_t *a0 = tile_of_a(p, a, k, turned[0]);
        const uint32_t *a1 = mt > 1 ? tile_of_a(p, a + TILE * p->ra, k, turned[1]) : a0;
        tiles_fence();
        TILE_LOAD(6, b + k * p->ldb, p->ldb);
        TILE_LOAD(4, a0, lda);
        _tile_dpbf16ps(0, 4, 6);
        if (mt > 1) {
            TILE_LOAD(5, a1, lda);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (nt > 1) {
            TILE_LOAD(7, b + k * p->ldb + TILE, p->ldb);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (mt > 1 && nt > 1)
            _tile_dpbf16ps(3, 5, 7);
        tiles_fence();
    }
    EACH_OF_C(TILE_STORE);
    tiles_fence();
}

INLINE void tiles_rows(const struct panel *p, int64_t m0, const int mt, int64_t units,
                       const int add)
{
    const uint32_t *a = p->a + m0 * p->ra;
    float *c = p->c + m0 * p->ldc;
    int64_t n0 = 0;
    for (; n0 + 2 * TILE <= p->n; n0 += 2 * TILE)
        tiles_block(p, a, p->b + n0, c + n0, mt, 2, units, add);
    if (n0 < p->n)
        tiles_block(p, a, p->b + n0, c + n0, mt, 1, units, add);
}

/* The panel's first rows and units, as many as whole tiles have; the rest is done by vectors. */
INLINE void tiles_product(const struct panel *p, const int add)
{
    const int64_t m = p->m / TILE * TILE, k = p->k / TILE * TILE;
    int64_t m0 = 0;
    struct panel rest = *p;
    tiles_fence();
    for (; k > 0 && m0 + 2 * TILE <= m; m0 += 2 * TILE)
        tiles_rows(p, m0, 2, k, add);
    for (; k > 0 && m0 < m; m0 += TILE)
        tiles_rows(p, m0, 1, k, add);
    rest.m = m0;
    rest.k = p->k - k;
    rest.a = p->a + k * p->ka;
    rest.b = p->b + k * p->ldb;
    if (rest.m > 0 && rest.k > 0)
        panel_product(&rest, 1, WEFT_BF16);
    rest = *p;
    rest.m = p->m - m0;
    rest.a = p->a + m0 * p->ra;
    rest.c = p->c + m0 * p->ldc;
    if (rest.m > 0)
        panel_product(&rest, add, WEFT_BF16);
}

#endif
