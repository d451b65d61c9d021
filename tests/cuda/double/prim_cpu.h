/* prim_cpu.h: what kern/prim.cuh gives the kernels of the cuda device on a GPU, on a CPU: threads
 * of a block are fibers (fiber.h), shared memory is static memory, since blocks run one after
 * another.
 */
#ifndef PRIM_CPU_H
#define PRIM_CPU_H

#include "bits.h"
#include "fiber.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define FN static inline
#define FN_APART static

#define ENTRY(name, threads, type)                                                                 \
    static void name##_body(const type &j);                                                        \
    static void name##_entry(const void *job)                                                      \
    {                                                                                              \
        name##_body(*(const type *)job);                                                           \
    }                                                                                              \
    static struct fiber_kernel name##_kernel = {                                                   \
        {#name, threads, sizeof(type), 0, 0}, name##_entry, NULL};                                 \
    __attribute__((constructor)) static void name##_known()                                        \
    {                                                                                              \
        fiber_add(&name##_kernel);                                                                 \
    }                                                                                              \
    static void name##_body(const type &j)

#define SHARED(type, name, count) static type name[count]

FN int thread()
{
    return fiber_now.thread;
}

FN int threads()
{
    return fiber_now.threads;
}

FN int64_t block()
{
    return fiber_now.block;
}

FN int64_t block_y()
{
    return fiber_now.block_y;
}

FN int64_t blocks()
{
    return fiber_now.blocks;
}

FN char *shared_bytes()
{
    return fiber_now.shared;
}

FN void sync_block()
{
    fiber_sync_block();
}

FN void sync_warp()
{
    fiber_sync_warp();
}

FN float shuffle_xor(float x, int mask)
{
    return fiber_shuffle_xor(x, mask);
}

struct quad {
    uint32_t w[4];
};

struct pair {
    uint32_t w[2];
};

template <class Words> FN Words load_words(const void *p)
{
    fiber_check_aligned(p, sizeof(Words));
    Words q;
    memcpy(&q, p, sizeof q);
    return q;
}

template <class Words> FN void store_words(void *p, Words q)
{
    fiber_check_aligned(p, sizeof q);
    memcpy(p, &q, sizeof q);
}

FN quad load_quad(const void *p)
{
    return load_words<quad>(p);
}

FN pair load_pair(const void *p)
{
    return load_words<pair>(p);
}

FN void store_quad(void *p, quad q)
{
    store_words(p, q);
}

FN void store_pair(void *p, pair q)
{
    store_words(p, q);
}

FN void store_shared_quad(void *p, quad q)
{
    store_quad(p, q);
}

FN uint32_t bf16_pair(float low, float high)
{
    return bf16_bits(high) << 16 | bf16_bits(low);
}

FN uint32_t f16_pair(float low, float high)
{
    return f16_bits(high) << 16 | f16_bits(low);
}

FN float fast_exp2(float x)
{
    return exp2f(x);
}

FN float fast_divide(float x, float y)
{
    return x / y;
}

#endif
