/* kern/simd/vec_v3.h: eight floats in an AVX2 register, with FMA and F16C (x86-64-v3).
 * vec_avx512.h specifies each function. */
#ifndef CPU_VEC_H
#define CPU_VEC_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VL = 8, MR = 4, NR = 2 };

typedef __m256 vf;
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));

static inline vf v_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

static inline vf v_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

static inline vf v_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}

static inline vf v_select(vi mask, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, (__m256)mask);
}

static inline vf v_from_int(vi a)
{
    return _mm256_cvtepi32_ps((__m256i)a);
}

static inline vu v_mul_even(vu a, vu b)
{
    return (vu)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

static inline vf v_load_bf16(const uint16_t *p)
{
    __m128i h = _mm_loadu_si128((const void *)p);
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
}

/* Store the low 16 bits of each lane. */
static inline void v_store_low16(uint16_t *p, vu x)
{
    __m256i m = _mm256_and_si256((__m256i)x, _mm256_set1_epi32(0xffff));
    m = _mm256_permute4x64_epi64(_mm256_packus_epi32(m, m), 0x08);
    _mm_storeu_si128((void *)p, _mm256_castsi256_si128(m));
}

static inline vf v_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

static inline void v_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline vf v_zip_low(vf a, vf b)
{
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}

static inline vf v_zip_high(vf a, vf b)
{
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}

static inline float v_sum(vf x)
{
    __m128 y = _mm256_castps256_ps128(x) + _mm256_extractf128_ps(x, 1);
    y = y + _mm_movehl_ps(y, y);
    return y[0] + y[1];
}

static inline float v_largest(vf x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_max_ss(y, _mm_shuffle_ps(y, y, 1))[0];
}

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
    __m256i r = (__m256i)v_round_bf16(x);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
    _mm_stream_si128((void *)p, _mm256_castsi256_si128(r));
}

/* Order the stores of v_stream_bf16() before later stores. */
static inline void v_fence(void)
{
    _mm_sfence();
}

/* Sums of squares in double precision. */
typedef struct vsquares {
    __m256d s[2];
} vsquares;

static inline void v_squares_add(vsquares *q, vf x)
{
    __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    q->s[0] = _mm256_fmadd_pd(lo, lo, q->s[0]);
    q->s[1] = _mm256_fmadd_pd(hi, hi, q->s[1]);
}

static inline double v_squares_total(const vsquares *q)
{
    __m256d s = q->s[0] + q->s[1];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

#endif
