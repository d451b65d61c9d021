/* base/narrow.c: see narrow.h. */
#include "base/narrow.h"

#include <string.h>
#include <weft/base.h>

static uint16_t to_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Below the smallest normal number adding 0.5 rounds to fp16's smallest step; above, the exponent
 * is shifted from one bias to the other, and a carry out of the last bits may well reach infinity.
 */
static uint16_t to_f16(float v)
{
    uint32_t bits, sum;
    memcpy(&bits, &v, 4);
    uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x47800000u)
        return (uint16_t)(sign | 0x7c00u);
    if (size >= 0x38800000u)
        return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13);
    float f;
    memcpy(&f, &size, 4);
    f += 0.5f;
    memcpy(&sum, &f, 4);
    return (uint16_t)(sign | (sum - 0x3f000000u));
}

void narrow(uint16_t *to, const float *from, uint64_t n, uint32_t dtype)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = dtype == WEFT_F16 ? to_f16(from[i]) : to_bf16(from[i]);
}
