/* kern/simd/vec_v4.h: AVX-512 without bf16 instructions (x86-64-v4). */
#ifndef CPU_VEC_H
#define CPU_VEC_H

#include "vec_avx512.h"

/* c + the products of the two bf16 in each lane of a and b, without a bf16 instruction. */
static inline vf v_dot_bf16(vu a, vu b, vf c)
{
    c = v_fma((vf)(a << 16), (vf)(b << 16), c);
    return v_fma((vf)(a & 0xffff0000u), (vf)(b & 0xffff0000u), c);
}

/* Round to the nearest bf16, in the low half of each lane. */
static inline vu v_round_bf16(vf x)
{
    vu u = (vu)x, nan = (vu)(x != x);
    vu r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return (nan & (u >> 16 | 0x40)) | (~nan & r);
}

static inline void v_store_bf16(uint16_t *p, vf x)
{
    v_store_low16(p, v_round_bf16(x));
}

/* v_store_bf16 with a non-temporal store; p is aligned to the bytes stored. */
static inline void v_stream_bf16(uint16_t *p, vf x)
{
    _mm256_stream_si256((void *)p, _mm512_cvtepi32_epi16((__m512i)v_round_bf16(x)));
}

#endif
