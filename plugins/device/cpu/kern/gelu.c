/* kern/gelu.c: elementwise ops after a matrix product: GELU, bias and residual.
 *
 * The tanh form of GELU is x * logistic(2u) with u = sqrt(2/pi) (x + 0.044715 x^3), which has no
 * cancellation for large negative x. */
#include "impl.h"
#include "kern/simd/vmath.h"

#define GELU_A 1.59576912f   /* 2 sqrt(2/pi) */
#define GELU_B 0.0713548163f /* 2 sqrt(2/pi) * 0.044715 */

INLINE vf gelu(vf x)
{
    return x * v_logistic(x * v_fma(x * x, v_set1(GELU_B), v_set1(GELU_A)));
}

/* d gelu / dx = s + x s (1 - s) du, s = logistic(2u), du = d(2u)/dx */
INLINE vf gelu_slope(vf x)
{
    vf xx = x * x;
    vf s = v_logistic(x * v_fma(xx, v_set1(GELU_B), v_set1(GELU_A)));
    vf du = v_fma(xx, v_set1(3 * GELU_B), v_set1(GELU_A));
    return v_fma(x * du, s * (v_set1(1.0f) - s), s);
}

/* `b` may be NULL. */
INLINE vf with_bias(const void *x, const void *b, int64_t i, int64_t n, const uint32_t dt)
{
    vf z = v_read_n(x, i, n, dt);
    if (b)
        z += v_get_n(b, i, n, dt);
    return z;
}

INLINE void gelu_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    const void *b = j->a->nin > 1 ? j->in[1] : NULL; /* [F] */
    for (int64_t t = begin; t < end; t++) {
        const char *x = (const char *)j->in[0] + t * c * dt_size(dt);
        char *y = (char *)j->out[0] + t * c * dt_size(dt);
        EACH_VECTOR(i, n, c, v_write_n(y, i, n, dt, gelu(with_bias(x, b, i, n, dt))));
    }
}

/* in: x [T,F], optional b [F]; out: y [T,F]. Item: a row. */
void KERNEL(gelu)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) gelu_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

INLINE void gelu_dx_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    const void *b = j->a->nin > 2 ? j->in[2] : NULL;
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *dy = (const char *)j->in[0] + row, *x = (const char *)j->in[1] + row;
        char *dx = (char *)j->out[0] + row;
        EACH_VECTOR(i, n, c,
                    v_write_n(dx, i, n, dt,
                              v_read_n(dy, i, n, dt) * gelu_slope(with_bias(x, b, i, n, dt))));
    }
}

/* in: dy [T,F], x [T,F], optional b [F]; out: dx [T,F]. Item: a row. */
void KERNEL(gelu_dx)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) gelu_dx_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

INLINE void residual_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    const void *b = j->in[1];
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *x = (const char *)j->in[0] + row, *r = (const char *)j->in[2] + row;
        char *y = (char *)j->out[0] + row;
        EACH_VECTOR(i, n, c,
                    v_write_n(y, i, n, dt, with_bias(x, b, i, n, dt) + v_read_n(r, i, n, dt)));
    }
}

/* in: x [T,C], b [C], r [T,C]; out: x + b + r [T,C]. Item: a row. */
void KERNEL(bias_residual)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) residual_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
