/* kern/simd/vec_plain.h: four floats in a compiler vector, for processors other than x86-64. Plain
 * C, with sums in the same order as vec_v2.h. vec_avx512.h specifies each function. */
#ifndef CPU_VEC_H
#define CPU_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { VL = 4, MR = 4, NR = 2 };

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef uint16_t vh __attribute__((vector_size(8))); /* one 16-bit number per lane */

static inline vf v_set1(float x)
{
    return (vf){x, x, x, x};
}

static inline vf v_load(const float *p)
{
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline void v_store(float *p, vf x)
{
    memcpy(p, &x, sizeof x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

static inline vf v_select(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

static inline vf v_max(vf a, vf b)
{
    return v_select(a > b, a, b);
}

static inline vf v_min(vf a, vf b)
{
    return v_select(a < b, a, b);
}

static inline vf v_sqrt(vf a)
{
    return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}

static inline vf v_from_int(vi a)
{
    return __builtin_convertvector(a, vf);
}

typedef uint64_t vq __attribute__((vector_size(16)));

/* Also where the first lane is the upper half. */
static inline vu v_mul_even(vu a, vu b)
{
    const vq even = {(uint64_t)a[0] * b[0], (uint64_t)a[2] * b[2]};
    return (vu){(uint32_t)even[0], (uint32_t)(even[0] >> 32), (uint32_t)even[1],
                (uint32_t)(even[1] >> 32)};
}

/* Load four 16-bit numbers into the low halves of lanes. */
static inline vu v_load_low16(const uint16_t *p)
{
    vh h;
    memcpy(&h, p, sizeof h);
    return __builtin_convertvector(h, vu);
}

static inline vf v_load_bf16(const uint16_t *p)
{
    return (vf)(v_load_low16(p) << 16);
}

/* Store the low 16 bits of each lane. */
static inline void v_store_low16(uint16_t *p, vu x)
{
    vh h = __builtin_convertvector(x & 0xffff, vh);
    memcpy(p, &h, sizeof h);
}

/* There is no binary16 instruction: shift the exponent into place and multiply by 2^112 to correct
 * its bias, also for subnormals; then correct infinities and NaNs. */
static inline vf v_load_f16(const uint16_t *p)
{
    vu h = v_load_low16(p);
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
    return (vf){a[0], b[0], a[1], b[1]};
}

static inline vf v_zip_high(vf a, vf b)
{
    return (vf){a[2], b[2], a[3], b[3]};
}

static inline float v_sum(vf x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

static inline float v_largest(vf x)
{
    vf y = v_max(x, (vf){x[2], x[3], x[2], x[3]});
    return y[0] > y[1] ? y[0] : y[1];
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

/* v_store_bf16: a plain store here, so v_fence() does nothing. */
static inline void v_stream_bf16(uint16_t *p, vf x)
{
    v_store_bf16(p, x);
}

static inline void v_fence(void)
{
}

/* Sums of squares in double precision. */
typedef double vd __attribute__((vector_size(16)));
typedef struct vsquares {
    vd s[2];
} vsquares;

static inline void v_squares_add(vsquares *q, vf x)
{
    vd lo = {(double)x[0], (double)x[1]}, hi = {(double)x[2], (double)x[3]};
    q->s[0] += lo * lo;
    q->s[1] += hi * hi;
}

static inline double v_squares_total(const vsquares *q)
{
    vd s = q->s[0] + q->s[1];
    return s[0] + s[1];
}

#endif
