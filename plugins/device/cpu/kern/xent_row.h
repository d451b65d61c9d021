/* kern/xent_row.h: maximum of a range of logits, and the sum of their exponentials. */
#ifndef CPU_XENT_ROW_H
#define CPU_XENT_ROW_H

#include "impl.h"
#include "kern/simd/vmath.h"
#include <math.h>

enum { XENT_BLOCK = 1024 };

INLINE float block_max(const void *x, int64_t i0, int64_t n, const uint32_t dt)
{
    vf m0 = v_set1(-__builtin_inff()), m1 = m0;
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        m0 = v_max(v_read_n(x, i0 + i, VL, dt), m0);
        m1 = v_max(v_read_n(x, i0 + i + VL, VL, dt), m1);
    }
    for (; i < n; i += VL)
        m0 = v_max(v_select(v_first(n - i), v_get_n(x, i0 + i, n - i, dt), m0), m0);
    return v_largest(v_max(m0, m1));
}

INLINE float block_sum(const void *x, int64_t i0, int64_t n, float max, const uint32_t dt)
{
    vf s = v_set1(0);
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        s += v_exp_low(v_get(x, i0 + i, dt) - max);
    if (i < n)
        s += (vf)((vi)v_exp_low(v_get_n(x, i0 + i, n - i, dt) - max) & v_first(n - i));
    return v_sum(s);
}

#endif
