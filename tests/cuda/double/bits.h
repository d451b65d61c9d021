/* bits.h: 16-bit floats by their bits. */
#ifndef BITS_H
#define BITS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t as_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* To nearest, ties to even; a NaN stays one. */
static inline uint32_t bf16_bits(float x)
{
    const uint32_t b = as_bits(x);
    if (x != x)
        return 0x7fff;
    return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}

static inline uint32_t f16_bits(float x)
{
    const uint32_t sign = as_bits(x) >> 16 & 0x8000;
    const float a = fabsf(x);
    if (x != x)
        return 0x7fff;
    if (a >= 65520.0f)
        return sign | 0x7c00;
    if (a < 0x1p-14f) /* steps of the smallest number */
        return sign | (uint32_t)nearbyintf(a * 0x1p24f);
    const uint32_t b = as_bits(a) - (112u << 23); /* the exponent's other offset */
    return sign | (b + 0xfff + (b >> 13 & 1)) >> 13;
}

static inline float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00)
        return as_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400)
        return (h & 0x8000 ? -1.0f : 1.0f) * (float)rest * 0x1p-24f;
    return as_float(sign | ((rest << 13) + (112u << 23)));
}

#endif
