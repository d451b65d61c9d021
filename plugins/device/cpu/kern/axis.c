/* kern/axis.c: sums and maxima along one axis, and their counterpart, the broadcast.
 *
 * A tensor is [outer][along][inner] here: the axis, what lies before it and what lies behind it.
 *
 *   inner = 1   each row is contiguous: vectors run along it and are combined at its end
 *   inner > 1   vectors run across columns, WIDTH of them in buffers that fit first-level cache
 *
 * Partial results are added in groups of GROUP, and the groups' in turn (blocked summation), so
 * that rounding errors stay as small as those of short sums. A long axis is cut into pieces of
 * `chunk` elements, whose results the host side combines by a second run; it loses where `inner` is
 * smaller than a vector but not 1, because lanes stay empty. The order follows from the sizes
 * alone, so results do not depend on the number of threads. */
#include "impl.h"

enum { GROUP = 256, WIDTH = 512 };
enum { SUM, MAX };

/* A NaN of either operand is the result. */
INLINE vf join(vf a, vf b, const int op)
{
    if (op == SUM)
        return a + b;
    return v_select((vi)(a != a), a, v_max(a, b));
}

INLINE vf nothing(const int op)
{
    return v_set1(op == SUM ? 0.0f : -__builtin_inff());
}

/* Elements i to i + VL of which n are left; the rest changes nothing. */
INLINE vf load_left(const void *x, int64_t i, int64_t n, const int op, const uint32_t dt)
{
    const vf v = v_get_n(x, i, n, dt);
    return n >= VL || op == SUM ? v : v_select(v_first(n), v, nothing(op));
}

INLINE vf join_run(const void *x, int64_t i, int64_t end, const int op, const uint32_t dt)
{
    vf a = nothing(op), b = a;
    for (; i + 2 * VL <= end; i += 2 * VL) {
        a = join(a, v_get(x, i, dt), op);
        b = join(b, v_get(x, i + VL, dt), op);
    }
    for (; i < end; i += VL)
        a = join(a, load_left(x, i, end - i, op, dt), op);
    return join(a, b, op);
}

INLINE float join_lanes(vf v, const int op)
{
    float lane[VL], max;
    if (op == SUM)
        return v_sum(v);
    v_store(lane, v);
    max = lane[0];
    for (int i = 1; i < VL; i++)
        max = max != max || max > lane[i] ? max : lane[i];
    return max;
}

/* Elements [i, end) of a contiguous row. */
INLINE float join_row(const void *x, int64_t i, int64_t end, const int op, const uint32_t dt)
{
    vf total = nothing(op);
    for (; i < end; i += 2 * VL * GROUP) {
        const int64_t stop = end - i < 2 * VL * GROUP ? end : i + 2 * VL * GROUP;
        total = join(total, join_run(x, i, stop, op, dt), op);
    }
    return join_lanes(total, op);
}

/* Result i on, n left. */
INLINE void put(const struct cpu_job *j, int64_t i, int64_t n, vf v)
{
    const uint32_t gt = j->a->gt[0];
    if (j->a->accumulate)
        v += v_get_n(j->out[0], i, n, gt);
    v_put_n(j->out[0], i, n, gt, v);
}

/* Join `rows` rows of `width` columns, `stride` elements apart, from element `at` on. */
INLINE void join_columns(const void *x, int64_t at, int64_t rows, int64_t stride, int64_t width,
                         float *total, const int op, const uint32_t dt)
{
    float part[WIDTH];
    for (int64_t i = 0; i < width; i += VL)
        v_store(total + i, nothing(op));
    for (int64_t r = 0; r < rows; r += GROUP) {
        const int64_t end = rows - r < GROUP ? rows : r + GROUP;
        for (int64_t i = 0; i < width; i += VL)
            v_store(part + i, nothing(op));
        for (int64_t k = r; k < end; k++)
            for (int64_t i = 0; i < width; i += VL) {
                const vf v = v_get_n(x, at + k * stride + i, width - i, dt);
                v_store(part + i, join(v_load(part + i), v, op));
            }
        for (int64_t i = 0; i < width; i += VL)
            v_store(total + i, join(v_load(total + i), v_load(part + i), op));
    }
}

/* Item: one row's chunk, or one chunk of WIDTH columns. Results: [outer][chunks][inner]. */
INLINE void reduce(const struct cpu_job *j, int64_t begin, int64_t end, const int op,
                   const uint32_t dt)
{
    const struct cpu_args *a = j->a;
    const int64_t chunks = (a->along + a->chunk - 1) / a->chunk;
    const int64_t tiles = (a->inner + WIDTH - 1) / WIDTH;
    for (int64_t item = begin; item < end; item++) {
        const int64_t part = item / tiles, c0 = item % tiles * WIDTH; /* part: of [outer][chunks] */
        const int64_t first = part % chunks * a->chunk, row = part / chunks * a->along + first;
        const int64_t rows = a->along - first < a->chunk ? a->along - first : a->chunk;
        const int64_t width = a->inner - c0 < WIDTH ? a->inner - c0 : WIDTH;
        float total[WIDTH];
        if (a->inner == 1) {
            put(j, part, 1, v_set1(join_row(j->in[0], row, row + rows, op, dt)));
            continue;
        }
        join_columns(j->in[0], row * a->inner + c0, rows, a->inner, width, total, op, dt);
        for (int64_t i = 0; i < width; i += VL)
            put(j, part * a->inner + c0 + i, width - i, v_load(total + i));
    }
}

void KERNEL(sum_axis)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) reduce(j, begin, end, SUM, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

void KERNEL(max_axis)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) reduce(j, begin, end, MAX, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

/* Fill n elements of `size` bytes with one. */
static void fill(char *to, const char *from, int64_t n, int64_t size)
{
    uint32_t four;
    uint16_t two;
    if (size == 4) {
        memcpy(&four, from, 4);
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * 4, &four, 4);
    } else if (size == 2) {
        memcpy(&two, from, 2);
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * 2, &two, 2);
    } else if (size == 1) {
        memset(to, *from, (size_t)n);
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * size, from, (size_t)size);
    }
}

/* in: x [outer][inner]; out: y [outer][along][inner], any type. Item: `chunk` rows along the axis.
 */
void KERNEL(broadcast)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    const struct cpu_args *a = j->a;
    const int64_t size = (int64_t)weft_dtype_size(a->dt), row = a->inner * size;
    const int64_t chunks = (a->along + a->chunk - 1) / a->chunk;
    (void)scratch;
    for (int64_t item = begin; item < end; item++) {
        const int64_t outer = item / chunks, first = item % chunks * a->chunk;
        const int64_t rows = a->along - first < a->chunk ? a->along - first : a->chunk;
        const char *from = (const char *)j->in[0] + outer * row;
        char *to = (char *)j->out[0] + (outer * a->along + first) * row;
        if (a->inner == 1)
            fill(to, from, rows, size);
        for (int64_t r = 0; a->inner > 1 && r < rows; r++)
            memcpy(to + r * row, from, (size_t)row);
    }
}
