/* kern/ew.cu: elementwise programs: one pass over all operands, for any rule and any chain.
 *
 * A block first computes the scalars, then takes tiles of WIDE elements a thread. A thread reads
 * all operands that are vectors into slots, follows the instructions, and writes all outputs.
 * Reading comes before writing, so that an output may lie over any input. Slots are shared memory
 * that only their own thread touches; results that the next instruction alone reads stay in
 * registers (ew.c sees to it). An AdamW so takes some hundred instructions an element, less than
 * its 28 bytes of memory traffic allow. */
#include "common.cuh"
#include <weft/op.h>

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

/* Outputs that are scalars, by one thread. Other blocks may still be to read what they lie over, so
 * that they are written by a launch of their own. */
FN void put_scalars(const struct ew_job &j, const float *all)
{
    const struct ew_code *code = j.code;
    for (uint32_t k = 0; k < code->nout; k++) {
        const float x[1] = {code->out_one[k] ? all[code->out[k] & ~EW_SCALAR] : 0};
        if (code->out_one[k])
            store_any<1>(j.out[k], code->out_type[k], 0, x);
    }
}

/* --- vectors --- */

/* This block's shared memory: scalars, instructions, slots of two quads a thread. */
struct ew_shared {
    float *scalar;
    struct ew_instr *instr;
    char *slots;
};

FN char *slot_half(const struct ew_shared &s, uint32_t slot, int half)
{
    return s.slots + ((slot * 2 + half) * threads() + thread()) * sizeof(quad);
}

FN void slot_put(const struct ew_shared &s, uint32_t slot, const float (&x)[WIDE])
{
    for (int h = 0; h < 2; h++) {
        quad q;
        for (int i = 0; i < 4; i++)
            q.w[i] = as_bits(x[4 * h + i]);
        store_shared_quad(slot_half(s, slot, h), q);
    }
}

FN void slot_get(const struct ew_shared &s, uint32_t slot, float (&x)[WIDE])
{
    for (int h = 0; h < 2; h++) {
        const quad q = load_quad(slot_half(s, slot, h));
        for (int i = 0; i < 4; i++)
            x[4 * h + i] = as_float(q.w[i]);
    }
}

FN void operand_get(const struct ew_shared &s, uint32_t from, const float (&before)[WIDE],
                    float (&x)[WIDE])
{
    if (from & EW_SCALAR) {
        const float one = s.scalar[from & ~EW_SCALAR];
        for (int i = 0; i < WIDE; i++)
            x[i] = one;
    } else if (from == EW_BEFORE) {
        for (int i = 0; i < WIDE; i++)
            x[i] = before[i];
    } else {
        slot_get(s, from, x);
    }
}

/* Elements [i, i + WIDE) of an operand, of which there are `left`. */
FN void read_vector(const void *p, uint32_t type, int64_t i, int64_t left, float (&x)[WIDE])
{
    if (left >= WIDE) {
        load_any<WIDE>(p, type, i, x);
        return;
    }
#pragma unroll
    for (int k = 0; k < WIDE; k++) {
        float one[1] = {0};
        if (k < left)
            load_any<1>(p, type, i + k, one);
        x[k] = one[0];
    }
}

FN void write_vector(void *p, uint32_t type, int64_t i, int64_t left, const float (&x)[WIDE])
{
    if (left >= WIDE) {
        store_any<WIDE>(p, type, i, x);
        return;
    }
#pragma unroll
    for (int k = 0; k < WIDE; k++) {
        const float one[1] = {x[k]};
        if (k < left)
            store_any<1>(p, type, i + k, one);
    }
}

FN void run_tile(const struct ew_job &j, const struct ew_code &code, const struct ew_shared &s,
                 int64_t i)
{
    float a[WIDE], b[WIDE] = {0}, c[WIDE] = {0}, r[WIDE] = {0};
    for (uint32_t k = 0; k < code.nin; k++)
        if (code.in_slot[k] != EW_NOWHERE) {
            read_vector(j.in[k], code.in_type[k], i, code.count - i, a);
            slot_put(s, code.in_slot[k], a);
        }
    for (uint32_t n = 0; n < code.ninstr; n++) {
        const struct ew_instr x = s.instr[n];
        operand_get(s, x.a, r, a);
        if (x.b != EW_NOWHERE)
            operand_get(s, x.b, r, b);
        if (x.c != EW_NOWHERE)
            operand_get(s, x.c, r, c);
        apply<WIDE>(x.op, a, b, c, r);
        if (x.dst != EW_NOWHERE)
            slot_put(s, x.dst, r);
    }
    for (uint32_t k = 0; k < code.nout; k++)
        if (!code.out_one[k]) {
            operand_get(s, code.out[k], r, a);
            write_vector(j.out[k], code.out_type[k], i, code.count - i, a);
        }
}

/* Shared memory as ew.c counts it: code, scalars, instructions, each rounded up to 16 bytes, slots.
 */
FN struct ew_shared shared_of(const struct ew_code &code)
{
    char *at = shared_bytes();
    const uint64_t scalars = (code.nscalar * sizeof(float) + 15) / 16 * 16;
    const uint64_t instrs = (code.ninstr * sizeof(struct ew_instr) + 15) / 16 * 16;
    return {(float *)at, (struct ew_instr *)(at + scalars), at + scalars + instrs};
}

ENTRY(ew, EW_THREADS, struct ew_job)
{
    SHARED(struct ew_code, head, 1);
    if (thread() == 0)
        head[0] = *j.code;
    sync_block();
    const struct ew_code &code = head[0];
    const struct ew_shared s = shared_of(code);
    const struct ew_instr *instr = (const struct ew_instr *)(j.code + 1);
    const struct ew_scalar *scalar = (const struct ew_scalar *)(instr + code.ninstr);
    for (uint32_t n = thread(); n < code.ninstr; n += threads())
        s.instr[n] = instr[n];
    if (thread() == 0)
        for (uint32_t n = 0; n < code.nscalar; n++)
            s.scalar[n] = scalar_of(j, &scalar[n], s.scalar);
    sync_block();
    if (code.gate >= 0 && s.scalar[code.gate] == 0)
        return;
    if (j.scalars) {
        if (thread() == 0)
            put_scalars(j, s.scalar);
        return;
    }
    const int64_t step = blocks() * threads() * WIDE;
    for (int64_t i = (block() * threads() + thread()) * WIDE; i < code.count; i += step)
        run_tile(j, code, s, i);
}
