/* comm/kernels/reduce_kernel.h: the body of the reduction kernels. The including file defines WIDE
 * (a target attribute, or nothing), SET (the name of the set) and, where the level converts half
 * precision in hardware, widen_f16 and narrow_f16.
 *
 * Up to four sources are combined in registers on the way to the destination; more go through a
 * block of accumulators in the L1 cache, because the destination may be one of the later sources.
 * The compiler unrolls and vectorises each loop: `redop` and `n` are constants in every copy. */
#include <string.h>

#include "comm/kernels/reduce.h"

#define ALWAYS static inline WIDE __attribute__((always_inline))

/* Iterations access only their own index, so in-place operation does not prevent vectorisation. */
#ifdef __clang__
#define APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define APART _Pragma("GCC ivdep")
#endif

ALWAYS float f32_of(float x)
{
    return x;
}

ALWAYS float f32_to(float x)
{
    return x;
}

ALWAYS float bf16_of(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

ALWAYS uint16_t bf16_to(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t even = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : even);
}

/* Integer sums wrap; signed overflow is undefined in C. */
ALWAYS uint32_t i32_of(int32_t x)
{
    return (uint32_t)x;
}

ALWAYS int32_t i32_to(uint32_t x)
{
    return (int32_t)x;
}

ALWAYS uint64_t i64_of(int64_t x)
{
    return (uint64_t)x;
}

ALWAYS int64_t i64_to(uint64_t x)
{
    return (int64_t)x;
}

ALWAYS float combine_float(uint32_t redop, float a, float b)
{
    if (redop == WEFT_SUM)
        return a + b;
    if (redop == WEFT_MAX)
        return ((a > b) | (a != a)) ? a : b;
    return ((a < b) | (a != a)) ? a : b;
}

ALWAYS uint32_t combine_i32(uint32_t redop, uint32_t a, uint32_t b)
{
    if (redop == WEFT_SUM)
        return a + b;
    if (redop == WEFT_MAX)
        return (int32_t)a > (int32_t)b ? a : b;
    return (int32_t)a < (int32_t)b ? a : b;
}

ALWAYS uint64_t combine_i64(uint32_t redop, uint64_t a, uint64_t b)
{
    if (redop == WEFT_SUM)
        return a + b;
    if (redop == WEFT_MAX)
        return (int64_t)a > (int64_t)b ? a : b;
    return (int64_t)a < (int64_t)b ? a : b;
}

/* NAME_few: 1 to 4 sources directly to the destination. NAME_more: one source into the
 * accumulators, a separate function so that the loop over sources stays outside the loop over
 * elements. */
#define DEFINE_KERNEL(NAME, ELEM, ACC, COMBINE)                                                    \
    ALWAYS void NAME##_few(uint32_t redop, uint32_t n, ELEM *to, const void *const *from,          \
                           uint64_t count)                                                         \
    {                                                                                              \
        const ELEM *a = from[0], *b = from[n > 1 ? 1 : 0], *c = from[n > 2 ? 2 : 0],               \
                   *d = from[n > 3 ? 3 : 0];                                                       \
        APART for (uint64_t i = 0; i < count; i++)                                                 \
        {                                                                                          \
            ACC x = NAME##_of(a[i]);                                                               \
            x = n > 1 ? COMBINE(redop, x, NAME##_of(b[i])) : x;                                    \
            x = n > 2 ? COMBINE(redop, x, NAME##_of(c[i])) : x;                                    \
            x = n > 3 ? COMBINE(redop, x, NAME##_of(d[i])) : x;                                    \
            to[i] = NAME##_to(x);                                                                  \
        }                                                                                          \
    }                                                                                              \
    ALWAYS void NAME##_into(uint32_t redop, ACC *acc, const ELEM *a, uint64_t count)               \
    {                                                                                              \
        APART for (uint64_t i = 0; i < count; i++) acc[i] =                                        \
            COMBINE(redop, acc[i], NAME##_of(a[i]));                                               \
    }                                                                                              \
    static WIDE __attribute__((noinline)) void NAME##_more(uint32_t redop, ACC *acc,               \
                                                           const ELEM *a, uint64_t count)          \
    {                                                                                              \
        if (redop == WEFT_SUM)                                                                     \
            NAME##_into(WEFT_SUM, acc, a, count);                                                  \
        else if (redop == WEFT_MAX)                                                                \
            NAME##_into(WEFT_MAX, acc, a, count);                                                  \
        else                                                                                       \
            NAME##_into(WEFT_MIN, acc, a, count);                                                  \
    }                                                                                              \
    static WIDE void NAME##_many(uint32_t redop, ELEM *to, const void *const *from, uint32_t n,    \
                                 uint64_t count)                                                   \
    {                                                                                              \
        ACC acc[REDUCE_BLOCK];                                                                     \
        const ELEM *a = from[0];                                                                   \
        APART for (uint64_t i = 0; i < count; i++) acc[i] = NAME##_of(a[i]);                       \
        for (uint32_t k = 1; k < n; k++)                                                           \
            NAME##_more(redop, acc, from[k], count);                                               \
        APART for (uint64_t i = 0; i < count; i++) to[i] = NAME##_to(acc[i]);                      \
    }                                                                                              \
    ALWAYS void NAME##_op(uint32_t redop, void *to, const void *const *from, uint32_t n,           \
                          uint64_t count)                                                          \
    {                                                                                              \
        switch (n) {                                                                               \
        case 1: NAME##_few(redop, 1, to, from, count); break;                                      \
        case 2: NAME##_few(redop, 2, to, from, count); break;                                      \
        case 3: NAME##_few(redop, 3, to, from, count); break;                                      \
        case 4: NAME##_few(redop, 4, to, from, count); break;                                      \
        default: NAME##_many(redop, to, from, n, count);                                           \
        }                                                                                          \
    }                                                                                              \
    static WIDE void NAME##_kernel(uint32_t redop, void *to, const void *const *from, uint32_t n,  \
                                   uint64_t count)                                                 \
    {                                                                                              \
        if (redop == WEFT_SUM)                                                                     \
            NAME##_op(WEFT_SUM, to, from, n, count);                                               \
        else if (redop == WEFT_MAX)                                                                \
            NAME##_op(WEFT_MAX, to, from, n, count);                                               \
        else                                                                                       \
            NAME##_op(WEFT_MIN, to, from, n, count);                                               \
    }

DEFINE_KERNEL(f32, float, float, combine_float)
DEFINE_KERNEL(bf16, uint16_t, float, combine_float)
DEFINE_KERNEL(i32, int32_t, uint32_t, combine_i32)
DEFINE_KERNEL(i64, int64_t, uint64_t, combine_i64)

#ifndef HAVE_HALF
/* Half precision in integer arithmetic. Widening: rebias the exponent; a subnormal is its mantissa
 * times 2^-24. Narrowing: a subnormal result is rounded by adding the power of two whose last place
 * is 2^-24, a normal one by a carry into the bits that remain. No step handles a subnormal
 * float. */
ALWAYS float half_of(uint16_t h)
{
    uint32_t mant = h & 0x3ff, expo = h & 0x7c00, bits = (uint32_t)(h & 0x7fff) << 13, small;
    float f = (float)(int32_t)mant * 0x1p-24f;
    memcpy(&small, &f, 4);
    bits += 0x38000000u;
    bits = expo == 0x7c00 ? 0x7f800000u | mant << 13 | (mant ? 0x400000u : 0) : bits;
    bits = expo == 0 ? small : bits;
    bits |= (uint32_t)(h & 0x8000) << 16;
    memcpy(&f, &bits, 4);
    return f;
}

ALWAYS uint16_t half_to(float x)
{
    uint32_t bits, small;
    memcpy(&bits, &x, 4);
    uint32_t sign = bits >> 16 & 0x8000u, mag = bits & 0x7fffffffu;
    float f;
    memcpy(&f, &mag, 4);
    f += 0.5f; /* last place 2^-24, that of a subnormal half */
    memcpy(&small, &f, 4);
    small -= 0x3f000000u;
    uint32_t normal = (mag + 0xc8000fffu + (mag >> 13 & 1)) >> 13; /* exponent minus 112 */
    uint32_t out = mag < 0x38800000u ? small : normal;
    out = mag >= 0x477ff000u ? 0x7c00u : out;
    out = mag > 0x7f800000u ? (0x7e00u | (mag >> 13 & 0x3ff)) : out;
    return (uint16_t)(sign | out);
}

static WIDE void widen_f16(float *restrict to, const uint16_t *from, uint64_t count)
{
    APART for (uint64_t i = 0; i < count; i++) to[i] = half_of(from[i]);
}

static WIDE void narrow_f16(uint16_t *to, const float *restrict from, uint64_t count)
{
    APART for (uint64_t i = 0; i < count; i++) to[i] = half_to(from[i]);
}
#endif

static WIDE void f16_kernel(uint32_t redop, void *to, const void *const *from, uint32_t n,
                            uint64_t count)
{
    float acc[REDUCE_BLOCK], next[REDUCE_BLOCK];
    widen_f16(acc, from[0], count);
    for (uint32_t k = 1; k < n; k++) {
        widen_f16(next, from[k], count);
        f32_more(redop, acc, next, count);
    }
    narrow_f16(to, acc, count);
}
