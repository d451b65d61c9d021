/* kern/ew.cuh: what kernels of elementwise programs share: the steps, the scalars, and where a
 * thread's elements lie.
 *
 * A warp has 32 * WIDE elements, of which a thread has HALF at one place and HALF at another, 32 *
 * HALF further: so a warp's loads and stores are whole sectors in 16 bits and in fp32 alike. */
#ifndef GPU_EW_CUH
#define GPU_EW_CUH

#include "common.cuh"
#include <weft/op.h>

#define HALF (WIDE / 2)

FN_APART float slow_function(uint32_t op, float a, float b)
{
    switch (op) {
    case WEFT_EW_EXP: return expf(a);
    case WEFT_EW_LOG: return logf(a);
    case WEFT_EW_COS: return cosf(a);
    default: return powf(a, b);
    }
}

/* A NaN in either operand is the result. */
FN float least(float a, float b)
{
    return a < b || a != a ? a : b;
}

FN float most(float a, float b)
{
    return a > b || a != a ? a : b;
}

FN float sign_of(float a)
{
    return a != a ? a : (float)((a > 0) - (a < 0));
}

#define EACH(expression)                                                                           \
    for (int i = 0; i < N; i++)                                                                    \
        r[i] = expression;                                                                         \
    break

/* r = op(a, b, c), element by element. */
template <int N>
FN void apply(uint32_t op, const float (&a)[N], const float (&b)[N], const float (&c)[N],
              float (&r)[N])
{
    switch (op) {
    case WEFT_EW_COPY: EACH(a[i]);
    case WEFT_EW_ADD: EACH(a[i] + b[i]);
    case WEFT_EW_SUB: EACH(a[i] - b[i]);
    case WEFT_EW_MUL: EACH(a[i] * b[i]);
    case WEFT_EW_DIV: EACH(a[i] / b[i]);
    case WEFT_EW_MIN: EACH(least(a[i], b[i]));
    case WEFT_EW_MAX: EACH(most(a[i], b[i]));
    case WEFT_EW_SQRT: EACH(sqrtf(a[i]));
    case WEFT_EW_NEG: EACH(-a[i]);
    case WEFT_EW_ABS: EACH(fabsf(a[i]));
    case WEFT_EW_SIGN: EACH(sign_of(a[i]));
    case WEFT_EW_SELECT: EACH(c[i] != 0 ? a[i] : b[i]);
    case WEFT_EW_LESS: EACH(a[i] < b[i] ? 1.0f : 0.0f);
    case WEFT_EW_FINITE: EACH(fabsf(a[i]) < INFINITY ? 1.0f : 0.0f);
    case WEFT_EW_ROUND: EACH(rintf(a[i]));
    case WEFT_EW_FLOOR: EACH(floorf(a[i]));
    case EW_MULADD: EACH(fmaf(a[i], b[i], c[i]));
    case EW_NMULADD: EACH(fmaf(-a[i], b[i], c[i]));
    default: EACH(slow_function(op, a[i], b[i]));
    }
}

/* --- scalars --- */

FN float one_of(const void *p, uint32_t type)
{
    float x[1];
    load_any<1>(p, type, 0, x);
    return x[0];
}

FN float scalar_of(const struct ew_job &j, const struct ew_scalar *s, const float *all)
{
    const float a[1] = {s->op == EW_INPUT ? 0 : all[s->a]}, b[1] = {all[s->b]}, c[1] = {all[s->c]};
    float r[1];
    if (s->op == EW_INPUT)
        return one_of(j.in[s->a], j.code->in_type[s->a]);
    if (s->op == WEFT_EW_CONST)
        return s->imm;
    if (s->op == EW_INVERSE)
        return 1.0f / a[0];
    apply<1>(s->op, a, b, c, r);
    return r[0];
}

/* Scalar outputs, by one thread. Other blocks may still read an operand that they alias, so a
 * separate launch writes them. */
FN void put_scalars(const struct ew_job &j, const float *all)
{
    const struct ew_code *code = j.code;
    for (uint32_t k = 0; k < code->nout; k++) {
        const float x[1] = {code->out_one[k] ? all[code->out[k] & ~EW_SCALAR] : 0};
        if (code->out_one[k])
            store_any<1>(j.out[k], code->out_type[k], 0, x);
    }
}

/* Compute them, on one thread, for all threads of the block; false: nothing is to be written. */
FN bool make_scalars(const struct ew_job &j, const struct ew_code &code, float *all)
{
    const struct ew_instr *instr = (const struct ew_instr *)(j.code + 1);
    const struct ew_scalar *scalar = (const struct ew_scalar *)(instr + code.ninstr);
    if (thread() == 0)
        for (uint32_t n = 0; n < code.nscalar; n++)
            all[n] = scalar_of(j, &scalar[n], all);
    sync_block();
    return code.gate < 0 || all[code.gate] != 0;
}

/* --- vectors --- */

/* The first of this thread's elements; those of the next tile are tile_step() further. */
FN int64_t first_element()
{
    const int lane = thread() % 32;
    return (block() * threads() + thread() - lane) * WIDE + lane * HALF;
}

FN int64_t tile_step()
{
    return blocks() * threads() * WIDE;
}

/* This thread's elements, from i on, of an operand that has `count`. */
FN void read_vector(const void *p, uint32_t type, int64_t i, int64_t count, float (&x)[WIDE])
{
#pragma unroll
    for (int h = 0; h < 2; h++, i += 32 * HALF) {
        float half[HALF] = {0};
        if (i + HALF <= count) {
            load_any<HALF>(p, type, i, half);
        } else {
#pragma unroll
            for (int k = 0; k < HALF; k++) {
                float one[1] = {0};
                if (i + k < count)
                    load_any<1>(p, type, i + k, one);
                half[k] = one[0];
            }
        }
        for (int k = 0; k < HALF; k++)
            x[h * HALF + k] = half[k];
    }
}

FN void write_vector(void *p, uint32_t type, int64_t i, int64_t count, const float (&x)[WIDE])
{
#pragma unroll
    for (int h = 0; h < 2; h++, i += 32 * HALF) {
        float half[HALF];
        for (int k = 0; k < HALF; k++)
            half[k] = x[h * HALF + k];
        if (i + HALF <= count) {
            store_any<HALF>(p, type, i, half);
            continue;
        }
#pragma unroll
        for (int k = 0; k < HALF; k++) {
            const float one[1] = {half[k]};
            if (i + k < count)
                store_any<1>(p, type, i + k, one);
        }
    }
}

#endif
