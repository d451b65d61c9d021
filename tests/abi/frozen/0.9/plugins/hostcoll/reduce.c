/* reduce.c: sums, maxima and minima of each element type, in the order of the ranks. */
#include "hostcoll.h"

#include <string.h>

static float from_half(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    uint32_t bits = sign | (e == 31 ? 0x7f800000 : (e + 112) << 23) | m << 13;
    float f;
    memcpy(&f, &bits, 4);
    if (e == 0) /* zero and subnormal: m units of 2^-24 */
        f = (sign ? -1.0f : 1.0f) * (float)m * 0x1p-24f;
    return f;
}

/* To nearest, ties to even: the addition of a number of the right size rounds in hardware. */
static uint16_t to_half(float f)
{
    uint32_t bits, sign;
    memcpy(&bits, &f, 4);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000) /* 65520 and above */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* below 2^-14: in units of 2^-24 */
        float small;
        memcpy(&small, &bits, 4);
        small += 0.5f;
        memcpy(&bits, &small, 4);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static float from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define SAME(x) (x)

/* `type` in memory, `wide` while it is combined. */
#define REDUCE(name, type, wide, load, store)                                                      \
    static void name(uint32_t redop, const char *const *from, uint32_t n, char *out, uint64_t k)   \
    {                                                                                              \
        for (uint64_t i = 0; i < k; i++) {                                                         \
            wide acc = 0;                                                                          \
            type x;                                                                                \
            for (uint32_t r = 0; r < n; r++) {                                                     \
                memcpy(&x, from[r] + i * sizeof x, sizeof x);                                      \
                const wide v = load(x);                                                            \
                if (r && redop == WEFT_SUM)                                                        \
                    acc = (wide)(acc + v);                                                         \
                else if (!r || (redop == WEFT_MAX ? v > acc : v < acc))                            \
                    acc = v;                                                                       \
            }                                                                                      \
            x = (type)store(acc);                                                                  \
            memcpy(out + i * sizeof x, &x, sizeof x);                                              \
        }                                                                                          \
    }

REDUCE(of_f32, float, float, SAME, SAME)
REDUCE(of_f64, double, double, SAME, SAME)
REDUCE(of_f16, uint16_t, float, from_half, to_half)
REDUCE(of_bf16, uint16_t, float, from_bf16, to_bf16)
REDUCE(of_u8, uint8_t, uint8_t, SAME, SAME)

/* Sums of integers wrap: added without a sign, compared with one. */
REDUCE(sum_i32, uint32_t, uint32_t, SAME, SAME)
REDUCE(sum_i64, uint64_t, uint64_t, SAME, SAME)
REDUCE(most_i32, int32_t, int32_t, SAME, SAME)
REDUCE(most_i64, int64_t, int64_t, SAME, SAME)

void hostcoll_reduce(uint32_t dtype, uint32_t redop, const char *const *from, uint32_t n, char *out,
                     uint64_t count)
{
    const int sum = redop == WEFT_SUM;
    switch (dtype) {
    case WEFT_F32: of_f32(redop, from, n, out, count); break;
    case WEFT_F64: of_f64(redop, from, n, out, count); break;
    case WEFT_F16: of_f16(redop, from, n, out, count); break;
    case WEFT_BF16: of_bf16(redop, from, n, out, count); break;
    case WEFT_I32: (sum ? sum_i32 : most_i32)(redop, from, n, out, count); break;
    case WEFT_I64: (sum ? sum_i64 : most_i64)(redop, from, n, out, count); break;
    default: of_u8(redop, from, n, out, count); break;
    }
}
