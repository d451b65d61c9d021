/* comm/kernels/code_kernel.h: the bodies of the kernels of code.h, and the set of all kernels of a
 * level; with the conversions of reduce_kernel.h. Rounding is done by adding the number whose last
 * place is 1. */
#include "comm/kernels/reduce_kernel.h"

#define ROUNDER 0x1.8p23f
#define SMALLEST 0x1p-110f /* below it, 127 / x could overflow and x / 127 be subnormal */

static WIDE void code_widen(uint32_t dtype, float *restrict to, const void *from, uint64_t n)
{
    const uint16_t *half = from;
    if (dtype == WEFT_F32)
        memcpy(to, from, n * 4);
    else if (dtype == WEFT_F16)
        widen_f16(to, half, n);
    else
        for (uint64_t i = 0; i < n; i++)
            to[i] = bf16_of(half[i]);
}

static WIDE void code_narrow(uint32_t dtype, void *to, const float *restrict from, uint64_t n)
{
    uint16_t *half = to;
    if (dtype == WEFT_F32)
        memcpy(to, from, n * 4);
    else if (dtype == WEFT_F16)
        narrow_f16(half, from, n);
    else
        for (uint64_t i = 0; i < n; i++)
            half[i] = bf16_to(from[i]);
}

ALWAYS uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits & 0x7fffffffu;
}

ALWAYS float unless_infinite(float x)
{
    return magnitude(x) >= 0x7f800000u ? 0 : x;
}

/* x was encoded in 16 bits: decodes it and sets the residual. */
static WIDE void code_residual(uint32_t dtype, const void *code, float *restrict x,
                               float *restrict residual, uint64_t n)
{
    float said[SCHED_CODE_BLOCK];
    code_widen(dtype, said, code, n);
    for (uint64_t i = 0; i < n; i++)
        residual[i] = unless_infinite(x[i] - said[i]);
    memcpy(x, said, n * 4);
}

/* 0 decodes to 0 in every block: the gaps between gradients are never written, so a NaN there would
 * persist. */
static WIDE void decode_int8(float *restrict x, const signed char *restrict value, float scale,
                             uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)value[i] * scale;
    for (uint64_t i = 0; i < n && scale != scale; i++)
        x[i] = value[i] ? scale : 0;
}

static WIDE void encode_nan(char *restrict code, float *restrict x, float *restrict residual,
                            uint64_t n)
{
    const uint32_t nan = 0x7fc00000u;
    float scale;
    memcpy(code, &nan, 4);
    memcpy(&scale, &nan, 4);
    for (uint64_t i = 0; i < n; i++)
        code[4 + i] = x[i] != 0;
    decode_int8(x, (const signed char *)code + 4, scale, n);
    memset(residual, 0, n * 4);
}

static WIDE void encode_int8(char *restrict code, float *restrict x, float *restrict residual,
                             uint64_t n)
{
    uint32_t max = 0;
    for (uint64_t i = 0; i < n; i++)
        max = magnitude(x[i]) > max ? magnitude(x[i]) : max;
    if (max >= 0x7f800000u) {
        encode_nan(code, x, residual, n);
        return;
    }
    float top, scale, inverse;
    memcpy(&top, &max, 4);
    scale = top < SMALLEST ? 0 : top / 127;
    inverse = top < SMALLEST ? 0 : 127 / top;
    memcpy(code, &scale, 4);
    for (uint64_t i = 0; i < n; i++) {
        float was = x[i], rounded = was * inverse + ROUNDER;
        uint32_t bits;
        memcpy(&bits, &rounded, 4);
        code[4 + i] = (char)bits;
        x[i] = (rounded - ROUNDER) * scale;
        residual[i] = unless_infinite(was - x[i]);
    }
}

static WIDE void code_encode(uint32_t form, void *code, float *x, float *residual, uint64_t n)
{
    float dropped[SCHED_CODE_BLOCK];
    uint32_t dtype = form == SCHED_TO_FP16 ? WEFT_F16 : WEFT_BF16;
    residual = residual ? residual : dropped;
    if (form == SCHED_TO_INT8) {
        encode_int8(code, x, residual, n);
        return;
    }
    code_narrow(dtype, code, x, n);
    code_residual(dtype, code, x, residual, n);
}

static WIDE void code_decode(uint32_t form, float *restrict x, const void *code, uint64_t n)
{
    const signed char *value = (const signed char *)code + 4;
    float scale;
    if (form != SCHED_TO_INT8) {
        code_widen(form == SCHED_TO_FP16 ? WEFT_F16 : WEFT_BF16, x, code, n);
        return;
    }
    memcpy(&scale, code, 4);
    decode_int8(x, value, scale, n);
}

static WIDE void code_add(uint32_t form, float *restrict x, const void *code, uint64_t n)
{
    float said[SCHED_CODE_BLOCK];
    code_decode(form, said, code, n);
    for (uint64_t i = 0; i < n; i++)
        x[i] += said[i];
}

static WIDE void code_add_residual(float *restrict x, const float *restrict residual, float times,
                                   uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] += residual[i] * times;
}

const comm_kernel_set SET = {
    SET_NAME,
    f32_kernel,
    bf16_kernel,
    f16_kernel,
    i32_kernel,
    i64_kernel,
    {code_widen, code_narrow, code_encode, code_decode, code_add, code_add_residual},
};
