/* kern/simd/vmath.h: exp, log and the logistic function on vectors. v_exp and v_log have a relative
 * error below 1e-6 over the whole range (tests/ops/ew_test.c measures it), and infinities, zeros,
 * subnormals and NaNs as in libm; the others hold in the range that their comments name. tanh(x) as
 * 2 v_logistic(2x) - 1 cancels near 0. */
#ifndef CPU_VMATH_H
#define CPU_VMATH_H

#include "types.h"

/* x = n ln 2 + r with |r| <= ln 2 / 2; a polynomial gives exp(r). 2^n is the product of two
 * factors, so that multiplication alone gives subnormal results and overflow to infinity. */
INLINE vf v_exp(vf x)
{
    const float round_off = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = v_min(v_set1(89.0f), v_max(v_set1(-104.0f), x));
    vf t = v_fma(x, v_set1(1.44269504f), v_set1(round_off));
    vi n = (vi)t - 0x4b400000;
    vf nf = t - round_off;
    vf r = v_fma(nf, v_set1(-0.693359375f), x);
    r = v_fma(nf, v_set1(2.12194440e-4f), r);
    vf p = v_fma(v_set1(1.9875691500e-4f), r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_fma(p, r * r, r) + 1.0f;
    vi half = n >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((n - half + 127) << 23);
}

/* exp in half the instructions, for x <= 88, as in a softmax after subtracting the maximum. The low
 * bits of the sum t are n + 127, the exponent of 2^n; results below 2^-126 are 0. The polynomial
 * minimises the relative error for its degree (Remez). */
INLINE vf v_exp_low(vf x)
{
    const float round_off = 12583039.0f; /* 1.5 * 2^23 + 127 */
    x = v_max(v_set1(-88.0f), x);
    vf t = v_fma(x, v_set1(1.44269504f), v_set1(round_off));
    vf nf = t - round_off;
    vf r = v_fma(nf, v_set1(-0.693359375f), x);
    r = v_fma(nf, v_set1(2.12194440e-4f), r);
    vf p = v_fma(v_set1(8.29761941e-3f), r, v_set1(4.19156290e-2f));
    p = v_fma(p, r, v_set1(1.66675761e-1f));
    p = v_fma(p, r, v_set1(4.99988914e-1f));
    p = v_fma(p, r, v_set1(9.99999702e-1f));
    p = v_fma(p, r, v_set1(1.0f));
    return p * (vf)((vi)t << 23);
}

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)); a polynomial in m - 1 gives log(m). */
INLINE vf v_log(vf x)
{
    vi tiny = x < v_set1(1.17549435e-38f);
    vf y = v_select(tiny, x * 8388608.0f, x);
    vi e = (((vi)y >> 23) & 0xff) - 126 - (tiny & 23);
    vf m = (vf)(((vi)y & 0x007fffff) | 0x3f000000);
    vi low = m < v_set1(0.707106781f);
    e += low;
    m = m + (vf)((vi)m & low) - 1.0f;
    vf z = m * m, ef = v_from_int(e);
    vf p = v_fma(v_set1(7.0376836292e-2f), m, v_set1(-1.1514610310e-1f));
    p = v_fma(p, m, v_set1(1.1676998740e-1f));
    p = v_fma(p, m, v_set1(-1.2420140846e-1f));
    p = v_fma(p, m, v_set1(1.4249322787e-1f));
    p = v_fma(p, m, v_set1(-1.6668057665e-1f));
    p = v_fma(p, m, v_set1(2.0000714765e-1f));
    p = v_fma(p, m, v_set1(-2.4999993993e-1f));
    p = v_fma(p, m, v_set1(3.3333331174e-1f));
    p = p * m * z + ef * -2.12194440e-4f - 0.5f * z;
    vf r = m + p + ef * 0.693359375f;
    vf inf = v_set1(__builtin_inff());
    r = v_select(x == v_set1(0.0f), -inf, r);
    r = v_select(x < v_set1(0.0f), v_set1(__builtin_nanf("")), r);
    r = v_select(x == inf, inf, r);
    return v_select(x != x, x, r);
}

/* 1 / (1 + exp(-x)); x below -88 gives the value at -88, 6e-39. A NaN is the second operand of
 * v_min(), which returns it. */
INLINE vf v_logistic(vf x)
{
    return v_set1(1.0f) / (v_exp_low(v_min(v_set1(88.0f), -x)) + 1.0f);
}

/* To the nearest whole number, ties to even. From 2^23 on every fp32 number is whole. Below, adding
 * 2^23 rounds to whole numbers; subtracting it restores the size, and the sign bit the sign of
 * zero. */
INLINE vf v_round(vf a)
{
    const vi sign = (vi)a & (vi)v_set1(-0.0f);
    const vf huge = v_set1(0x1p23f), size = (vf)((vi)a ^ sign);
    const vf whole = (size + huge) - huge;
    return v_select((vi)(size < huge), (vf)((vi)whole | sign), a);
}

#endif
