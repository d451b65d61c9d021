/* kern/norm.c: layer normalisation.
 *
 * y = (x - mean) * rstd * g + b over each row. A row is read three times, twice from
 * the cache: for the mean, for the mean square of x - mean (no cancellation), for the result. The
 * gradient of x needs two sums over the row; those of g and b are column sums (colsum.c). */
#include "impl.h"
#include "kern/simd/rowsum.h"
#include <math.h>

/* x - mean, zero in lanes beyond the row's end, so that they do not add to the sum of squares. */
INLINE vf centred(const void *x, int64_t i, int64_t n, float mean, uint32_t dt)
{
    vf d = v_get_n(x, i, n, dt) - mean;
    return n >= VL ? d : (vf)((vi)d & v_first(n));
}

INLINE vf square(vf d)
{
    return d * d;
}

INLINE void norm_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    const void *g = j->in[1], *b = j->in[2]; /* [C] */
    float *means = j->out[1], *rstds = j->out[2];
    for (int64_t t = begin; t < end; t++) {
        const char *x = (const char *)j->in[0] + t * c * dt_size(dt); /* [C] */
        char *y = (char *)j->out[0] + t * c * dt_size(dt);
        float mean, var;
#define READ(at, n) v_read_n(x, at, n, dt)
#define VALUE(at, n) v_get_n(x, at, n, dt)
#define SQUARE(at, n) square(centred(x, at, n, mean, dt))
        ROW_SUM(mean, c, READ);
        mean /= (float)c;
        ROW_SUM(var, c, SQUARE);
        float rstd = 1.0f / sqrtf(var / (float)c + (float)j->a->eps);
        for (int64_t i = 0; i < c; i += VL) {
            vf n = (VALUE(i, c - i) - mean) * rstd;
            v_write_n(y, i, c - i, dt,
                      v_fma(n, v_get_n(g, i, c - i, dt), v_get_n(b, i, c - i, dt)));
        }
        means[t] = mean;
        rstds[t] = rstd;
    }
}

/* in: x [T,C], g [C], b [C]; out: y [T,C], mean [T], rstd [T]. Item: a row. */
void KERNEL(layernorm)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) norm_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

/* With n = (x - mean) * rstd and h = dy * g: dx = rstd * (h - mean(h) - n * mean(h * n)). */
INLINE void norm_dx_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    const void *g = j->in[2];
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *dy = (const char *)j->in[0] + row, *x = (const char *)j->in[1] + row;
        char *dx = (char *)j->out[0] + row;
        const float mean = ((const float *)j->in[3])[t], rstd = ((const float *)j->in[4])[t];
        float sum_h, sum_hn;
#define H(at, n) (v_get_n(dy, at, n, dt) * v_get_n(g, at, n, dt))
#define HN(at, n) (H(at, n) * centred(x, at, n, mean, dt))
        ROW_SUM(sum_h, c, H);
        ROW_SUM(sum_hn, c, HN);
        const float mean_h = sum_h / (float)c, mean_hn = sum_hn * rstd * rstd / (float)c;
        for (int64_t i = 0; i < c; i += VL) {
            vf d = centred(x, i, c - i, mean, dt);
            v_put_n(dx, i, c - i, dt, (H(i, c - i) - mean_h - d * mean_hn) * rstd);
        }
    }
}

/* in: dy [T,C], x [T,C], g [C], mean [T], rstd [T]; out: dx [T,C]. Item: a row. */
void KERNEL(layernorm_dx)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) norm_dx_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
