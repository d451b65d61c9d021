/* kern/simd/vec_v4bf16.h: AVX-512 with bf16 instructions, which treat subnormals as zero. */
#ifndef CPU_VEC_H
#define CPU_VEC_H

#include "vec_avx512.h"

static inline vf v_dot_bf16(vu a, vu b, vf c)
{
    return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

static inline vu v_round_bf16(vf x)
{
    return (vu)_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));
}

static inline void v_store_bf16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((void *)p, (__m256i)_mm512_cvtneps_pbh(x));
}

/* v_store_bf16 with a non-temporal store; p is aligned to the bytes stored. */
static inline void v_stream_bf16(uint16_t *p, vf x)
{
    _mm256_stream_si256((void *)p, (__m256i)_mm512_cvtneps_pbh(x));
}

#endif
