/* kern/swiglu.c: SwiGLU, gate * logistic(gate) * up, and its gradient.
 *
 * With s = logistic(gate): dup = dy * gate * s, dgate = dy * up * s * (1 + gate * (1 - s)). One
 * pass computes both, and either may alias an operand. */
#include "impl.h"
#include "kern/simd/vmath.h"

INLINE void swiglu_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *gate = (const char *)j->in[0] + row, *up = (const char *)j->in[1] + row;
        char *y = (char *)j->out[0] + row;
        for (int64_t i = 0; i < c; i += VL) {
            vf g = v_get_n(gate, i, c - i, dt);
            v_put_n(y, i, c - i, dt, g * v_logistic(g) * v_get_n(up, i, c - i, dt));
        }
    }
}

/* in: gate [T,F], up [T,F]; out: y [T,F]. Item: a row. */
void KERNEL(swiglu)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) swiglu_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}

INLINE void swiglu_dx_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *dy = (const char *)j->in[0] + row, *gate = (const char *)j->in[1] + row;
        const char *up = (const char *)j->in[2] + row;
        char *dgate = (char *)j->out[0] + row, *dup = (char *)j->out[1] + row;
        for (int64_t i = 0; i < c; i += VL) {
            vf d = v_get_n(dy, i, c - i, dt), g = v_get_n(gate, i, c - i, dt);
            vf u = v_get_n(up, i, c - i, dt), s = v_logistic(g);
            vf slope = s * v_fma(g, v_set1(1.0f) - s, v_set1(1.0f));
            v_put_n(dgate, i, c - i, dt, d * u * slope);
            v_put_n(dup, i, c - i, dt, d * g * s);
        }
    }
}

/* in: dy [T,F], gate [T,F], up [T,F]; out: dgate [T,F], dup [T,F]. Item: a row. */
void KERNEL(swiglu_dx)(const struct cpu_job *j, int64_t begin, int64_t end, char *scratch)
{
    (void)scratch;
#define CALL(dt) swiglu_dx_rows(j, begin, end, dt)
    BY_TYPE(j->a->dt, CALL);
#undef CALL
}
