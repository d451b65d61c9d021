/* base/number/half.h: fp32 to the 16-bit types and back, as weights and logits pass between host
 * memory and the arena. Rounding is to nearest, ties to even; NaN stays NaN and infinities stay. */
#ifndef BASE_NUMBER_HALF_H
#define BASE_NUMBER_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint16_t bf16_from(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static inline float bf16_value(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

static inline uint16_t f16_from(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (bits >= 0x477ff000u) /* 65520, half-way between the largest number and the next one */
        return (uint16_t)(sign | 0x7c00u);
    if (bits >= 0x38800000u) /* normal: drop 13 bits, lower the exponent's bias by 112 */
        return (uint16_t)(sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13);
    float scaled; /* subnormal: a multiple of 2^-24, which is the last place of 0.5 and above */
    memcpy(&scaled, &bits, 4);
    scaled += 0.5f;
    memcpy(&bits, &scaled, 4);
    return (uint16_t)(sign | (bits - 0x3f000000u));
}

static inline float f16_value(uint16_t h)
{
    uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ffu, bits;
    float v = (float)fraction * 0x1p-24f;
    if (exponent) {
        bits =
            exponent == 31 ? 0x7f800000u | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
        memcpy(&v, &bits, 4);
    }
    return h & 0x8000u ? -v : v;
}

#endif
