/* scalar.c: scalar values of elementwise programs, evaluated one at a time. */
#include "cpu.h"
#include <float.h>
#include <math.h>
#include <string.h>

static float from_f16(uint16_t h)
{
    const int exponent = h >> 10 & 31;
    const float m = (float)(h & 1023), sign = h & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return m != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexpf(m, -24) : ldexpf(m + 1024, exponent - 25));
}

/* Round to nearest even: scale so that the last place is 1, then rintf. */
static uint16_t to_f16(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const float a = fabsf(x);
    int e;
    if (isnan(x))
        return sign | 0x7e00;
    if (a >= 65520.0f)
        return sign | 0x7c00;
    if (a < 0x1p-14f)
        return sign | (uint16_t)rintf(a * 0x1p24f);
    frexpf(a, &e);
    /* 1024..2048 units of the binade; 2048 carries into the exponent. */
    return sign | (uint16_t)(((e + 13) << 10) + (int)rintf(ldexpf(a, 11 - e)));
}

float cpu_get_one(const void *p, uint32_t dtype)
{
    uint16_t h;
    float x;
    if (dtype == WEFT_F32) {
        memcpy(&x, p, sizeof x);
        return x;
    }
    memcpy(&h, p, sizeof h);
    if (dtype == WEFT_F16)
        return from_f16(h);
    const uint32_t u = (uint32_t)h << 16;
    memcpy(&x, &u, sizeof x);
    return x;
}

void cpu_put_one(void *p, uint32_t dtype, float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (dtype == WEFT_F32) {
        memcpy(p, &x, sizeof x);
        return;
    }
    uint16_t h = to_f16(x);
    if (dtype == WEFT_BF16)
        h = x != x ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    memcpy(p, &h, sizeof h);
}

/* The factor that replaces a division by a: finite for every a except 0, so that 0 / a stays 0. */
static float inverse(float a)
{
    const float r = 1.0f / a;
    return isinf(r) && a != 0.0f ? copysignf(FLT_MAX, a) : r;
}

float cpu_apply(uint32_t ew, float a, float b, float c)
{
    switch (ew) {
    case WEFT_EW_COPY: return a;
    case WEFT_EW_ADD: return a + b;
    case WEFT_EW_SUB: return a - b;
    case WEFT_EW_MUL: return a * b;
    case WEFT_EW_DIV: return a / b;
    case WEFT_EW_MIN: return a != a || a < b ? a : b;
    case WEFT_EW_MAX: return a != a || a > b ? a : b;
    case WEFT_EW_SQRT: return sqrtf(a);
    case WEFT_EW_NEG: return -a;
    case WEFT_EW_ABS: return fabsf(a);
    case WEFT_EW_SIGN: return a != a ? a : copysignf(a != 0.0f, a);
    case WEFT_EW_EXP: return expf(a);
    case WEFT_EW_LOG: return logf(a);
    case WEFT_EW_POW: return powf(a, b);
    case WEFT_EW_SELECT: return c != 0.0f ? a : b;
    case WEFT_EW_LESS: return a < b;
    case WEFT_EW_FINITE: return isfinite(a);
    case WEFT_EW_ROUND: return rintf(a);
    case WEFT_EW_FLOOR: return floorf(a);
    case EW_INVERSE: return inverse(a);
    default: return cosf(a);
    }
}
