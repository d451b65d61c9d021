/* kern/swiglu.c: SwiGLU, gate * logistic(gate) * up, and its gradient.
 *
 * With s = logistic(gate): dup = dy * gate * s, dgate = dy * up * s * (1 + gate * (1 - s)). One
 * pass computes both, and either may alias an operand. */
#include "impl.h"
#include "kern/simd/vmath.h"

INLINE vf swiglu(vf gate, vf up)
{
    return gate * v_logistic(gate) * up;
}

INLINE void swiglu_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *gate = (const char *)j->in[0] + row, *up = (const char *)j->in[1] + row;
        char *y = (char *)j->out[0] + row;
        EACH_VECTOR(
            i, n, c,
            v_write_n(y, i, n, dt, swiglu(v_read_n(gate, i, n, dt), v_read_n(up, i, n, dt))));
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

/* Write dgate and dup of the n elements at i. */
INLINE void swiglu_slopes(char *dgate, char *dup, vf dy, vf gate, vf up, int64_t i, int64_t n,
                          const uint32_t dt)
{
    const vf s = v_logistic(gate);
    v_write_n(dgate, i, n, dt, dy * up * (s * v_fma(gate, v_set1(1.0f) - s, v_set1(1.0f))));
    v_write_n(dup, i, n, dt, dy * gate * s);
}

INLINE void swiglu_dx_rows(const struct cpu_job *j, int64_t begin, int64_t end, const uint32_t dt)
{
    const int64_t c = j->a->cols;
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * c * dt_size(dt);
        const char *dy = (const char *)j->in[0] + row, *gate = (const char *)j->in[1] + row;
        const char *up = (const char *)j->in[2] + row;
        char *dgate = (char *)j->out[0] + row, *dup = (char *)j->out[1] + row;
        EACH_VECTOR(i, n, c,
                    swiglu_slopes(dgate, dup, v_read_n(dy, i, n, dt), v_read_n(gate, i, n, dt),
                                  v_read_n(up, i, n, dt), i, n, dt));
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
