/* kern/colsum.c: column sums over the tokens: gradients of biases, and of gain and bias of layer
 * normalisation and RMSNorm.
 *
 * A block of columns is summed in buffers that fit L1, over groups of 256 rows; the groups' sums
 * are then added (blocked summation), so rounding errors stay as small as those of short sums. Each
 * column's order of summation is fixed, so results do not depend on the number of threads. */
#include "impl.h"

/* A block takes a part of each row, which the processor's own prefetching does not follow: without
 * asking for rows that are AHEAD, half the speed is lost. */
enum { GROUP = 256, WIDTH = 512, AHEAD = 8 };

/* Write block [c0, c0 + width) of output k. */
INLINE void write_sums(const struct cpu_job *j, int k, int64_t c0, int64_t width, const float *sum)
{
    const uint32_t gt = j->a->gt[k];
    for (int64_t i = 0; i < width; i += VL) {
        vf s = v_load(sum + i);
        if (j->a->accumulate)
            s += v_get_n(j->out[k], c0 + i, width - i, gt);
        v_put_n(j->out[k], c0 + i, width - i, gt, s);
    }
}

/* Add n <= 4 rows of the columns to part. */
INLINE void add_rows(const char *dy, int64_t row, int64_t n, int64_t width, float *part,
                     const uint32_t dt)
{
    for (int64_t i = 0; i < width; i += VL) {
        vf s = v_load(part + i);
        if (n == 4) {
            for (int k = 0; k < 4; k++)
                prefetch(dy + i * dt_size(dt), (k + AHEAD) * row);
            vf ab = v_get_n(dy, i, width - i, dt) + v_get_n(dy + row, i, width - i, dt);
            vf cd =
                v_get_n(dy + 2 * row, i, width - i, dt) + v_get_n(dy + 3 * row, i, width - i, dt);
            s += ab + cd;
        } else {
            for (int64_t k = 0; k < n; k++)
                s += v_get_n(dy + k * row, i, width - i, dt);
        }
        v_store(part + i, s);
    }
}

INLINE void add_up(float *total, float *part, int64_t width)
{
    for (int64_t i = 0; i < width; i += VL) {
        v_store(total + i, v_load(total + i) + v_load(part + i));
        v_store(part + i, v_set1(0));
    }
}

INLINE void sum_columns(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t rows = j->a->rows, cols = j->a->cols, row = cols * dt_size(dt);
    for (int64_t c0 = begin; c0 < end; c0 += WIDTH) {
        const int64_t width = end - c0 < WIDTH ? end - c0 : WIDTH;
        const char *dy = (const char *)j->in[0] + c0 * dt_size(dt);
        float total[WIDTH] = {0}, part[WIDTH] = {0};
        for (int64_t t = 0; t < rows; t += 4) {
            add_rows(dy + t * row, row, rows - t < 4 ? rows - t : 4, width, part, dt);
            if (t % GROUP == GROUP - 4)
                add_up(total, part, width);
        }
        add_up(total, part, width);
        write_sums(j, 0, c0, width, total);
    }
}

/* First column of an item; the last item may be short. */
INLINE int64_t column(const struct cpu_job *j, int64_t item)
{
    int64_t c = item * COLUMN_BLOCK;
    return c < j->a->cols ? c : j->a->cols;
}

/* in: dy [T,O]; out: db [O]. Item: COLUMN_BLOCK columns. */
void KERNEL(colsum)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) sum_columns(j, column(j, begin), column(j, end), dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

/* n <= 4 rows from t, of the columns from c0: db += dy, dg += dy * (x - mean) * rstd. */
INLINE void norm_rows(const struct cpu_job *j, int64_t t, int64_t n, int64_t c0, int64_t width,
                      float *dg, float *db, const uint32_t dt)
{
    const int64_t row = j->a->cols * dt_size(dt), at = t * row + c0 * dt_size(dt);
    const char *dy = (const char *)j->in[0] + at, *x = (const char *)j->in[1] + at;
    const float *mean = (const float *)j->in[2] + t, *rstd = (const float *)j->in[3] + t;
    for (int64_t i = 0; i < width; i += VL) {
        vf g = v_load(dg + i), b = v_load(db + i);
        for (int64_t k = 0; k < n; k++) {
            prefetch(dy + i * dt_size(dt), (k + AHEAD) * row);
            prefetch(x + i * dt_size(dt), (k + AHEAD) * row);
            vf d = v_get_n(dy + k * row, i, width - i, dt);
            g = v_fma(d, (v_get_n(x + k * row, i, width - i, dt) - mean[k]) * rstd[k], g);
            b += d;
        }
        v_store(dg + i, g);
        v_store(db + i, b);
    }
}

INLINE void norm_columns(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t rows = j->a->rows;
    for (int64_t c0 = begin; c0 < end; c0 += WIDTH) {
        const int64_t width = end - c0 < WIDTH ? end - c0 : WIDTH;
        float dg[WIDTH] = {0}, db[WIDTH] = {0}, part_g[WIDTH] = {0}, part_b[WIDTH] = {0};
        for (int64_t t = 0; t < rows; t += 4) {
            norm_rows(j, t, rows - t < 4 ? rows - t : 4, c0, width, part_g, part_b, dt);
            if (t % GROUP == GROUP - 4) {
                add_up(dg, part_g, width);
                add_up(db, part_b, width);
            }
        }
        add_up(dg, part_g, width);
        add_up(db, part_b, width);
        write_sums(j, 0, c0, width, dg);
        write_sums(j, 1, c0, width, db);
    }
}

/* in: dy [T,C], x [T,C], mean [T], rstd [T]; out: dg [C], db [C]. Item: COLUMN_BLOCK columns. */
void KERNEL(layernorm_dw)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) norm_columns(j, column(j, begin), column(j, end), dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

/* n <= 4 rows from t, of the columns from c0: dg += dy * x * rstd. */
INLINE void rms_rows(const struct cpu_job *j, int64_t t, int64_t n, int64_t c0, int64_t width,
                     float *dg, const uint32_t dt)
{
    const int64_t row = j->a->cols * dt_size(dt), at = t * row + c0 * dt_size(dt);
    const char *dy = (const char *)j->in[0] + at, *x = (const char *)j->in[1] + at;
    const float *rstd = (const float *)j->in[2] + t;
    for (int64_t i = 0; i < width; i += VL) {
        vf g = v_load(dg + i);
        for (int64_t k = 0; k < n; k++) {
            prefetch(dy + i * dt_size(dt), (k + AHEAD) * row);
            prefetch(x + i * dt_size(dt), (k + AHEAD) * row);
            g = v_fma(v_get_n(dy + k * row, i, width - i, dt),
                      v_get_n(x + k * row, i, width - i, dt) * rstd[k], g);
        }
        v_store(dg + i, g);
    }
}

INLINE void rms_columns(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t rows = j->a->rows;
    for (int64_t c0 = begin; c0 < end; c0 += WIDTH) {
        const int64_t width = end - c0 < WIDTH ? end - c0 : WIDTH;
        float total[WIDTH] = {0}, part[WIDTH] = {0};
        for (int64_t t = 0; t < rows; t += 4) {
            rms_rows(j, t, rows - t < 4 ? rows - t : 4, c0, width, part, dt);
            if (t % GROUP == GROUP - 4)
                add_up(total, part, width);
        }
        add_up(total, part, width);
        write_sums(j, 0, c0, width, total);
    }
}

/* in: dy [T,C], x [T,C], rstd [T]; out: dg [C]. Item: COLUMN_BLOCK columns. */
void KERNEL(rmsnorm_dw)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) rms_columns(j, column(j, begin), column(j, end), dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
