/* kern/simd/vec_v4amx.h: AVX-512 with bf16 instructions, and the tiles of AMX for products of bf16
 * (tiles.h). */
#include "vec_v4bf16.h"

#define CPU_TILES

/* 32 numbers of 16 bits, those of which the bit is set; the others are zero and not read. */
static inline vf v_load_16s(const uint16_t *p, uint32_t some)
{
    return (vf)_mm512_maskz_loadu_epi16(some, p);
}

/* Pairs of 16 numbers each from `low` and `high`, likewise. */
static inline vf v_pair_16s(const uint16_t *low, const uint16_t *high, uint32_t some_low,
                            uint32_t some_high)
{
    const __m256i a = _mm256_maskz_loadu_epi16((__mmask16)some_low, low);
    const __m256i b = _mm256_maskz_loadu_epi16((__mmask16)some_high, high);
    return (vf)_mm512_or_si512(_mm512_cvtepu16_epi32(a),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}
