/* kern/simd/vec_avx512.h: sixteen floats in an AVX-512 register (x86-64-v4).
 *
 * Each vec_*.h defines the same types and functions for one instruction set; the kernels are
 * compiled once with each. VL is the number of floats in a vector; MR x NR*VL is the tile of a
 * small matrix product that fits the registers. Arithmetic uses operators on vf; comparisons of vf
 * return a vi of 0 and -1. Loads and stores need no alignment. v_max and v_min return their second
 * operand when either is a NaN. 16-bit stores round to nearest even and keep NaNs. A vu may hold
 * two bf16 per lane: v_dot_bf16(a, b, c) adds both products of each lane to c. */
#ifndef CPU_VEC_AVX512_H
#define CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VL = 16, MR = 8, NR = 2 };

typedef __m512 vf;
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));

static inline vf v_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

static inline vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

static inline vf v_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}

/* a where the mask is -1, b where it is 0. */
static inline vf v_select(vi mask, vf a, vf b)
{
    return _mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), b, a);
}

static inline vf v_from_int(vi a)
{
    return _mm512_cvtepi32_ps((__m512i)a);
}

/* The 64-bit products of lanes 0, 2, ...: lower halves there, upper halves in the next lanes. */
static inline vu v_mul_even(vu a, vu b)
{
    return (vu)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

static inline vf v_load_bf16(const uint16_t *p)
{
    __m256i h = _mm256_loadu_si256((const void *)p);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}

/* Store the low 16 bits of each lane. */
static inline void v_store_low16(uint16_t *p, vu x)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16((__m512i)x));
}

static inline vf v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

static inline void v_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* a0 b0 a1 b1 ... of the lower halves, and of the upper ones. */
static inline vf v_zip_low(vf a, vf b)
{
    const vi lanes = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    return _mm512_permutex2var_ps(a, (__m512i)lanes, b);
}

static inline vf v_zip_high(vf a, vf b)
{
    const vi lanes = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutex2var_ps(a, (__m512i)lanes, b);
}

static inline float v_sum(vf x)
{
    return _mm512_reduce_add_ps(x);
}

static inline float v_largest(vf x)
{
    return _mm512_reduce_max_ps(x);
}

/* Order the stores of v_stream_bf16() before later stores. */
static inline void v_fence(void)
{
    _mm_sfence();
}

/* Sums of squares in double precision. */
typedef struct vsquares {
    __m512d s[2];
} vsquares;

static inline void v_squares_add(vsquares *q, vf x)
{
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    q->s[0] = _mm512_fmadd_pd(lo, lo, q->s[0]);
    q->s[1] = _mm512_fmadd_pd(hi, hi, q->s[1]);
}

static inline double v_squares_total(const vsquares *q)
{
    return _mm512_reduce_add_pd(q->s[0] + q->s[1]);
}

#endif
