/* kern/flat.c: accumulate, conversion of types and sum of squares on flat arrays.
 *
 * The sum of squares is computed in double over blocks of fixed size, and the host side adds the
 * blocks' sums in order: the result does not depend on the number of threads.
 *
 * A conversion goes through a buffer in first-level cache, block by block: one loop widens to fp32
 * or int32, one narrows. Whole numbers stay whole (int32 has more digits than fp32). fp32 to whole
 * numbers rounds to nearest, ties to even, and saturates; NaN becomes 0. */
#include "impl.h"
#include "kern/simd/vmath.h"

enum { BLOCK = 256 }; /* elements of the buffer of a conversion */

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

static int is_whole(uint32_t dt)
{
    return dt == WEFT_I32 || dt == WEFT_U8;
}

static void load_whole(int32_t *to, const void *from, int64_t at, int64_t n, uint32_t dt)
{
    const uint8_t *bytes = (const uint8_t *)from + at;
    if (dt == WEFT_I32)
        memcpy(to, (const int32_t *)from + at, (size_t)n * sizeof *to);
    for (int64_t i = 0; dt == WEFT_U8 && i < n; i++)
        to[i] = bytes[i];
}

static void store_whole(void *to, int64_t at, int64_t n, const int32_t *from, uint32_t dt)
{
    uint8_t *bytes = (uint8_t *)to + at;
    if (dt == WEFT_I32)
        memcpy((int32_t *)to + at, from, (size_t)n * sizeof *from);
    for (int64_t i = 0; dt == WEFT_U8 && i < n; i++)
        bytes[i] = (uint8_t)(from[i] < 0 ? 0 : from[i] > 255 ? 255 : from[i]);
}

INLINE void load_run(float *to, const void *from, int64_t at, int64_t n, const uint32_t dt)
{
    for (int64_t i = 0; i < n; i += VL)
        v_store(to + i, v_get_n(from, at + i, n - i, dt));
}

INLINE void store_run(void *to, int64_t at, int64_t n, const float *from, const uint32_t dt)
{
    for (int64_t i = 0; i < n; i += VL)
        v_put_n(to, at + i, n - i, dt, v_load(from + i));
}

/* The smallest fp32 number that is too large for int32 is 2^31. */
static void to_whole(int32_t *to, float *from)
{
    for (int64_t i = 0; i < BLOCK; i += VL) {
        const vf x = v_load(from + i), r = v_max(v_round(x), v_set1(-0x1p31f));
        v_store(from + i, v_select((vi)(x == x), r, v_set1(0)));
    }
    for (int64_t i = 0; i < BLOCK; i++)
        to[i] = from[i] >= 0x1p31f ? INT32_MAX : (int32_t)from[i];
}

static void cast_block(const struct cpu_job *j, int64_t at, int64_t n)
{
    const uint32_t dt = j->a->dt, gt = j->a->gt[0];
    float x[BLOCK] = {0};
    int32_t w[BLOCK];
#define LOAD(type) load_run(x, j->in[0], at, n, type)
#define STORE(type) store_run(j->out[0], at, n, x, type)
    if (is_whole(dt))
        load_whole(w, j->in[0], at, n, dt);
    else
        BY_TYPE(dt, LOAD);
    if (is_whole(gt) && !is_whole(dt))
        to_whole(w, x);
    for (int64_t i = 0; !is_whole(gt) && is_whole(dt) && i < n; i++)
        x[i] = (float)w[i];
    if (is_whole(gt))
        store_whole(j->out[0], at, n, w, gt);
    else
        BY_TYPE(gt, STORE);
#undef LOAD
#undef STORE
}

/* in: x [N]; out: y [N] of another type. Item: FLAT_BLOCK elements. */
void KERNEL(cast)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
    const int64_t stop = end * FLAT_BLOCK < j->a->rows ? end * FLAT_BLOCK : j->a->rows;
    for (int64_t at = begin * FLAT_BLOCK; at < stop; at += BLOCK)
        cast_block(j, at, stop - at < BLOCK ? stop - at : BLOCK);
}
