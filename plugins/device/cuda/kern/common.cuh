/* kern/common.cuh: element types, vectors of elements, sums over warps and blocks. */
#ifndef GPU_COMMON_CUH
#define GPU_COMMON_CUH

#include "job.h"
#include GPU_PRIM
#include <math.h>
#include <stdint.h>

/* 16-bit floats are stored; arithmetic is fp32. */
struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

FN float widen(float x)
{
    return x;
}

FN float widen(bf16 x)
{
    return as_float((uint32_t)x.bits << 16);
}

FN float widen(f16 x)
{
    return from_f16(x.bits);
}

FN void put(float *p, float x)
{
    *p = x;
}

FN void put(bf16 *p, float x)
{
    p->bits = (uint16_t)bf16_pair(x, 0);
}

FN void put(f16 *p, float x)
{
    p->bits = (uint16_t)f16_pair(x, 0);
}

/* --- W elements at p, which is aligned to them; W is 1, WIDE or half as many --- */

/* Two elements in a word, the first in its lower half. */
FN void spread(bf16, uint32_t word, float *x)
{
    x[0] = as_float(word << 16);
    x[1] = as_float(word & 0xffff0000u);
}

FN void spread(f16, uint32_t word, float *x)
{
    x[0] = from_f16((uint16_t)word);
    x[1] = from_f16((uint16_t)(word >> 16));
}

FN uint32_t join(bf16, const float *x)
{
    return bf16_pair(x[0], x[1]);
}

FN uint32_t join(f16, const float *x)
{
    return f16_pair(x[0], x[1]);
}

template <class T> FN void unpack_half(const T *p, float *x)
{
    const pair q = load_pair(p);
    for (int i = 0; i < 2; i++)
        spread(T{}, q.w[i], x + 2 * i);
}

FN void unpack_half(const float *p, float *x)
{
    const quad q = load_quad(p);
    for (int i = 0; i < 4; i++)
        x[i] = as_float(q.w[i]);
}

template <class T> FN void unpack(const T *p, float *x)
{
    const quad q = load_quad(p);
    for (int i = 0; i < 4; i++)
        spread(T{}, q.w[i], x + 2 * i);
}

FN void unpack(const float *p, float *x)
{
    unpack_half(p, x);
    unpack_half(p + 4, x + 4);
}

template <class T> FN void pack_half(T *p, const float *x)
{
    store_pair(p, {{join(T{}, x), join(T{}, x + 2)}});
}

FN void pack_half(float *p, const float *x)
{
    quad q;
    for (int i = 0; i < 4; i++)
        q.w[i] = as_bits(x[i]);
    store_quad(p, q);
}

template <class T> FN void pack(T *p, const float *x)
{
    quad q;
    for (int i = 0; i < 4; i++)
        q.w[i] = join(T{}, x + 2 * i);
    store_quad(p, q);
}

FN void pack(float *p, const float *x)
{
    pack_half(p, x);
    pack_half(p + 4, x + 4);
}

template <int W, class T> FN void load(const T *p, float (&x)[W])
{
    if constexpr (W == 1)
        x[0] = widen(*p);
    else if constexpr (W == WIDE)
        unpack(p, x);
    else {
        static_assert(W == WIDE / 2, "1, WIDE or half as many");
        unpack_half(p, x);
    }
}

template <int W, class T> FN void store(T *p, const float (&x)[W])
{
    if constexpr (W == 1)
        put(p, x[0]);
    else if constexpr (W == WIDE)
        pack(p, x);
    else {
        static_assert(W == WIDE / 2, "1, WIDE or half as many");
        pack_half(p, x);
    }
}

/* Elements [i, i + W) of a tensor whose type is known at run time. */
template <int W> FN void load_any(const void *p, uint32_t type, int64_t i, float (&x)[W])
{
    if (type == GPU_F32)
        load<W>((const float *)p + i, x);
    else if (type == GPU_BF16)
        load<W>((const bf16 *)p + i, x);
    else
        load<W>((const f16 *)p + i, x);
}

template <int W> FN void store_any(void *p, uint32_t type, int64_t i, const float (&x)[W])
{
    if (type == GPU_F32)
        store<W>((float *)p + i, x);
    else if (type == GPU_BF16)
        store<W>((bf16 *)p + i, x);
    else
        store<W>((f16 *)p + i, x);
}

/* A gradient: written, or added to what is there. */
template <int W>
FN void put_grad(void *p, uint32_t type, int64_t i, const float (&x)[W], int accumulate)
{
    float sum[W];
    for (int k = 0; k < W; k++)
        sum[k] = x[k];
    if (accumulate) {
        float old[W];
        load_any<W>(p, type, i, old);
        for (int k = 0; k < W; k++)
            sum[k] += old[k];
    }
    store_any<W>(p, type, i, sum);
}

/* --- sums --- */

FN float warp_sum(float x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x += shuffle_xor(x, mask);
    return x;
}

FN float warp_max(float x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

/* Over all threads of a block of whole warps, the same on all. `scratch` [33] is shared; it may be
 * used again at once. */
FN float block_sum(float x, float *scratch)
{
    const int warps = threads() / 32;
    x = warp_sum(x);
    if (thread() % 32 == 0)
        scratch[thread() / 32] = x;
    sync_block();
    float sum = 0;
    for (int w = 0; w < warps; w++)
        sum += scratch[w];
    sync_block();
    return sum;
}

FN float block_max(float x, float *scratch)
{
    const int warps = threads() / 32;
    x = warp_max(x);
    if (thread() % 32 == 0)
        scratch[thread() / 32] = x;
    sync_block();
    float max = scratch[0];
    for (int w = 1; w < warps; w++)
        max = fmaxf(max, scratch[w]);
    sync_block();
    return max;
}

/* Over the threads that share a row: a warp, or the whole block. */
FN float team_sum(float x, int team, float *scratch)
{
    return team == 32 ? warp_sum(x) : block_sum(x, scratch);
}

/* exp(x) in three instructions, where expf() has eight: x log2(e) and the constant are rounded, so
 * that the result is off by 1.3 |x| 2^-24 besides. */
FN float exponential(float x)
{
    return fast_exp2(x * 1.44269504f);
}

/* 1 / (1 + exp(-x)); 0 and 1 far out. */
FN float logistic(float x)
{
    return fast_divide(1.0f, 1.0f + exponential(-x));
}

/* One kernel for each element type: body(T). */
#define FOR_TYPES(name, threads, body)                                                             \
    ENTRY(name##_f32, threads, struct gpu_job)                                                     \
    {                                                                                              \
        body<float>(j);                                                                            \
    }                                                                                              \
    ENTRY(name##_bf16, threads, struct gpu_job)                                                    \
    {                                                                                              \
        body<bf16>(j);                                                                             \
    }                                                                                              \
    ENTRY(name##_f16, threads, struct gpu_job)                                                     \
    {                                                                                              \
        body<f16>(j);                                                                              \
    }

/* ... which takes rows as vectors where they are whole ones: body(T, W). */
#define FOR_ROWS(name, threads, body)                                                              \
    template <class T> FN void name##_any(const struct gpu_job &j)                                 \
    {                                                                                              \
        if (j.z.wide)                                                                              \
            body<T, WIDE>(j);                                                                      \
        else                                                                                       \
            body<T, 1>(j);                                                                         \
    }                                                                                              \
    FOR_TYPES(name, threads, name##_any)

#endif
