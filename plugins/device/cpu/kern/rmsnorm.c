/* kern/rmsnorm.c: RMSNorm, normalisation by the root mean square.
 *
 * y = x * rstd * g with rstd = 1 / sqrt(mean(x^2) + eps) over each row. A row is read twice, the
 * second time from the cache. The gradient of x needs one sum over the row; the gradient of g is a
 * column sum (colsum.c). */
#include "impl.h"
#include "kern/simd/rowsum.h"
#include <math.h>

INLINE vf square(vf x)
{
    return x * x;
}

INLINE void rms_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    const void *g = j->in[1]; /* [C] */
    float *rstds = j->out[1];
    for (int64_t t = begin; t < end; t++) {
        const char *x = (const char *)j->in[0] + t * c * dt_size(dt); /* [C] */
        char *y = (char *)j->out[0] + t * c * dt_size(dt);
        float sum;
#define SQUARE(at, n) square(v_read_n(x, at, n, dt))
        ROW_SUM(sum, c, SQUARE);
#undef SQUARE
        const float rstd = 1.0f / sqrtf(sum / (float)c + (float)j->a->eps);
        for (int64_t i = 0; i < c; i += VL)
            v_write_n(y, i, c - i, dt, v_get_n(x, i, c - i, dt) * rstd * v_get_n(g, i, c - i, dt));
        rstds[t] = rstd;
    }
}

/* in: x [T,C], g [C]; out: y [T,C], rstd [T]. Item: a row. */
void KERNEL(rmsnorm)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) rms_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

/* With h = dy * g: dx = rstd * (h - x * rstd^2 * mean(h * x)). */
INLINE void rms_dx_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    const void *g = j->in[2];
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *dy = (const char *)j->in[0] + row, *x = (const char *)j->in[1] + row;
        char *dx = (char *)j->out[0] + row;
        const float rstd = ((const float *)j->in[3])[t];
        float sum;
#define H(at, n) (v_get_n(dy, at, n, dt) * v_get_n(g, at, n, dt))
#define HX(at, n) (H(at, n) * v_get_n(x, at, n, dt))
        ROW_SUM(sum, c, HX);
        const vf along = v_set1(-sum * rstd * rstd / (float)c);
        for (int64_t i = 0; i < c; i += VL)
            v_put_n(dx, i, c - i, dt, v_fma(v_get_n(x, i, c - i, dt), along, H(i, c - i)) * rstd);
#undef HX
#undef H
    }
}

/* in: dy [T,C], x [T,C], g [C], rstd [T]; out: dx [T,C]. Item: a row. */
void KERNEL(rmsnorm_dx)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) rms_dx_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
