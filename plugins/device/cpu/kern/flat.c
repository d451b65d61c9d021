/* kern/flat.c: accumulate and sum of squares on flat arrays of any float type.
 *
 * The sum of squares is computed in double over blocks of fixed size, and the host side adds the
 * blocks' sums in order: the result does not depend on the number of threads. */
#include "impl.h"

INLINE void accumulate_range(const struct cpu_job *j, int64_t i, int64_t end, const uint32_t dt,
                             const uint32_t gt)
{
    const void *x = j->in[0];
    void *y = j->out[0];
    if (j->a->accumulate)
        for (; i < end; i += VL)
            v_put_n(y, i, end - i, gt, v_get_n(y, i, end - i, gt) + v_get_n(x, i, end - i, dt));
    else
        for (; i < end; i += VL)
            v_put_n(y, i, end - i, gt, v_get_n(x, i, end - i, dt));
}

INLINE void accumulate_from(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    if (j->a->gt[0] == WEFT_F32)
        accumulate_range(j, begin, end, dt, WEFT_F32);
    else if (j->a->gt[0] == WEFT_BF16)
        accumulate_range(j, begin, end, dt, WEFT_BF16);
    else
        accumulate_range(j, begin, end, dt, WEFT_F16);
}

/* in: x [N]; out: y [N], possibly of another type. Item: FLAT_BLOCK elements. */
void KERNEL(accumulate)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const int64_t i0 = begin * FLAT_BLOCK, stop = end * FLAT_BLOCK;
    const int64_t i1 = stop < j->a->rows ? stop : j->a->rows;
    if (j->a->dt == WEFT_F32)
        accumulate_from(j, i0, i1, WEFT_F32);
    else if (j->a->dt == WEFT_BF16)
        accumulate_from(j, i0, i1, WEFT_BF16);
    else
        accumulate_from(j, i0, i1, WEFT_F16);
}

INLINE double squares(const void *x, int64_t i, int64_t end, const uint32_t dt)
{
    vsquares q0 = {0}, q1 = {0};
    for (; i + 2 * VL <= end; i += 2 * VL) {
        v_squares_add(&q0, v_get(x, i, dt));
        v_squares_add(&q1, v_get(x, i + VL, dt));
    }
    for (; i < end; i += VL)
        v_squares_add(&q0, v_get_n(x, i, end - i, dt));
    return v_squares_total(&q0) + v_squares_total(&q1);
}

/* in: x [N]. ws: double [blocks]. Item: FLAT_BLOCK elements. */
void KERNEL(sumsq)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    for (int64_t b = begin; b < end; b++) {
        const int64_t i0 = b * FLAT_BLOCK;
        const int64_t left = j->a->rows - i0, n = left < FLAT_BLOCK ? left : FLAT_BLOCK;
        double *sum = (double *)j->ws + b;
        if (j->a->dt == WEFT_F32)
            *sum = squares(j->in[0], i0, i0 + n, WEFT_F32);
        else if (j->a->dt == WEFT_BF16)
            *sum = squares(j->in[0], i0, i0 + n, WEFT_BF16);
        else
            *sum = squares(j->in[0], i0, i0 + n, WEFT_F16);
    }
}
