/* kern/simd/vec_v2.h: four floats in an SSE register (x86-64-v2): the baseline that the wider sets
 * are tested against. vec_avx512.h specifies each function. */
#ifndef CPU_VEC_H
#define CPU_VEC_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VL = 4, MR = 4, NR = 2 };

typedef __m128 vf;
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

static inline vf v_set1(float x)
{
    return _mm_set1_ps(x);
}

static inline vf v_load(const float *p)
{
    return _mm_loadu_ps(p);
}

static inline void v_store(float *p, vf x)
{
    _mm_storeu_ps(p, x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

static inline vf v_max(vf a, vf b)
{
    return _mm_max_ps(a, b);
}

static inline vf v_min(vf a, vf b)
{
    return _mm_min_ps(a, b);
}

static inline vf v_sqrt(vf a)
{
    return _mm_sqrt_ps(a);
}

static inline vf v_select(vi mask, vf a, vf b)
{
    return _mm_blendv_ps(b, a, (__m128)mask);
}

static inline vf v_from_int(vi a)
{
    return _mm_cvtepi32_ps((__m128i)a);
}

static inline vu v_mul_even(vu a, vu b)
{
    return (vu)_mm_mul_epu32((__m128i)a, (__m128i)b);
}

static inline vf v_load_bf16(const uint16_t *p)
{
    __m128i h = _mm_loadl_epi64((const void *)p);
    return (vf)_mm_slli_epi32(_mm_cvtepu16_epi32(h), 16);
}

/* Store the low 16 bits of each lane. */
static inline void v_store_low16(uint16_t *p, vu x)
{
    __m128i m = _mm_and_si128((__m128i)x, _mm_set1_epi32(0xffff));
    _mm_storel_epi64((void *)p, _mm_packus_epi32(m, m));
}

/* There is no binary16 instruction: shift the exponent into place and multiply by 2^112 to correct
 * its bias, also for subnormals; then correct infinities and NaNs. */
static inline vf v_load_f16(const uint16_t *p)
{
    vu h = (vu)_mm_cvtepu16_epi32(_mm_loadl_epi64((const void *)p));
    vu bits = (h & 0x7fff) << 13;
    vf x = (vf)bits * v_set1(0x1p112f);
    vi special = (vi)bits >= (0x7c00 << 13);
    x = (vf)((vu)x | ((vu)special & 0x7f800000u));
    return (vf)((vu)x | (h & 0x8000) << 16);
}

/* Round to nearest even: normal results by integer arithmetic on the bits, subnormal results by
 * adding 0.5, whose last place (ulp) is the smallest binary16 step. */
static inline void v_store_f16(uint16_t *p, vf x)
{
    vu sign = (vu)x & 0x80000000u, a = (vu)x ^ sign;
    vu normal = (a - 0x38000000u + 0xfff + ((a >> 13) & 1)) >> 13;
    vu small = (vu)((vf)a + v_set1(0.5f)) - 0x3f000000u;
    vu big = 0x7c00u + ((vu)((vi)a > 0x7f800000) & 0x200u);
    vu is_small = (vu)((vi)a < 0x38800000), is_big = (vu)((vi)a >= 0x47800000);
    vu r = (is_small & small) | (~is_small & normal);
    r = (is_big & big) | (~is_big & r);
    v_store_low16(p, r | sign >> 16);
}

static inline vf v_zip_low(vf a, vf b)
{
    return _mm_unpacklo_ps(a, b);
}

static inline vf v_zip_high(vf a, vf b)
{
    return _mm_unpackhi_ps(a, b);
}

static inline float v_sum(vf x)
{
    vf y = x + _mm_movehl_ps(x, x);
    return y[0] + y[1];
}

static inline float v_largest(vf x)
{
    vf y = _mm_max_ps(x, _mm_movehl_ps(x, x));
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
    __m128i r = (__m128i)v_round_bf16(x);
    _mm_stream_si64((void *)p, _mm_cvtsi128_si64(_mm_packus_epi32(r, r)));
}

/* Order the stores of v_stream_bf16() before later stores. */
static inline void v_fence(void)
{
    _mm_sfence();
}

/* Sums of squares in double precision. */
typedef struct vsquares {
    __m128d s[2];
} vsquares;

static inline void v_squares_add(vsquares *q, vf x)
{
    __m128d lo = _mm_cvtps_pd(x), hi = _mm_cvtps_pd(_mm_movehl_ps(x, x));
    q->s[0] += lo * lo;
    q->s[1] += hi * hi;
}

static inline double v_squares_total(const vsquares *q)
{
    __m128d s = q->s[0] + q->s[1];
    return s[0] + s[1];
}

#endif
