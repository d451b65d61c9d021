/* kern/simd/types.h: loads and stores with type conversion; kernels compute in fp32.
 *
 * `dt` is a compile-time constant in hot code: a kernel's body is an always-inline function with
 * one call per type, so the compiler removes every switch below. */
#ifndef CPU_TYPES_H
#define CPU_TYPES_H

#include CPU_VEC
#include "kern/kern.h"

#define INLINE static inline __attribute__((always_inline))

INLINE int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

INLINE vu vu_set1(uint32_t x)
{
    return (vu)v_set1(0) + x;
}

/* Load VL elements, starting at element i. */
INLINE vf v_get(const void *p, int64_t i, uint32_t dt)
{
    switch (dt) {
    case WEFT_F32: return v_load((const float *)p + i);
    case WEFT_BF16: return v_load_bf16((const uint16_t *)p + i);
    default: return v_load_f16((const uint16_t *)p + i);
    }
}

INLINE void v_put(void *p, int64_t i, uint32_t dt, vf x)
{
    switch (dt) {
    case WEFT_F32: v_store((float *)p + i, x); break;
    case WEFT_BF16: v_store_bf16((uint16_t *)p + i, x); break;
    default: v_store_f16((uint16_t *)p + i, x); break;
    }
}

INLINE int64_t dt_size(uint32_t dt)
{
    return dt == WEFT_F32 ? 4 : 2;
}

/* Ask for the cache line `bytes` beyond `from`; an address that is not there does no harm. */
INLINE void prefetch(const void *from, int64_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)from + (uint64_t)bytes));
}

/* Load or store the last n < VL elements: other lanes read as zero and are not written. */
static __attribute__((noinline, unused)) vf v_get_tail(const void *p, int64_t i, int64_t n,
                                                       uint32_t dt)
{
    float part[VL] = {0};
    memcpy(part, (const char *)p + i * dt_size(dt), (size_t)(n * dt_size(dt)));
    return v_get(part, 0, dt);
}

static __attribute__((noinline, unused)) void v_put_tail(void *p, int64_t i, int64_t n, uint32_t dt,
                                                         vf x)
{
    float part[VL];
    v_put(part, 0, dt, x);
    memcpy((char *)p + i * dt_size(dt), part, (size_t)(n * dt_size(dt)));
}

/* v_get and v_put with n elements left: if n < VL, only the first n lanes exist. */
INLINE vf v_get_n(const void *p, int64_t i, int64_t n, uint32_t dt)
{
    return n >= VL ? v_get(p, i, dt) : v_get_tail(p, i, n, dt);
}

INLINE void v_put_n(void *p, int64_t i, int64_t n, uint32_t dt, vf x)
{
    if (n >= VL)
        v_put(p, i, dt, x);
    else
        v_put_tail(p, i, n, dt, x);
}

/* v_get_n and v_put_n in a loop over a whole array, in order: they ask for what lies
 * some lines further, since the processor's own prefetching stops at each page. */
enum { FURTHER = 2048 }; /* bytes; this is measured */

INLINE vf v_read_n(const void *p, int64_t i, int64_t n, uint32_t dt)
{
    prefetch(p, i * dt_size(dt) + FURTHER);
    return v_get_n(p, i, n, dt);
}

INLINE void v_write_n(void *p, int64_t i, int64_t n, uint32_t dt, vf x)
{
    prefetch(p, i * dt_size(dt) + FURTHER);
    v_put_n(p, i, n, dt, x);
}

/* The statement for i = 0, VL, ... below `cols`, with n elements left there. The whole vectors have
 * a loop of their own: a call for a tail in it would make it load its constants each time. */
#define EACH_VECTOR(i, n, cols, statement)                                                         \
    do {                                                                                           \
        int64_t i = 0;                                                                             \
        for (const int64_t n = VL; i + VL <= (cols); i += VL)                                      \
            statement;                                                                             \
        for (const int64_t n = (cols)-i; i < (cols); i += VL)                                      \
            statement;                                                                             \
    } while (0)

/* -1 in the first n lanes, 0 in the rest. */
INLINE vi v_first(int64_t n)
{
    static const int32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vi at;
    memcpy(&at, lane, sizeof at);
    int32_t have = n > VL ? VL : n < 0 ? 0 : (int32_t)n;
    return at < have;
}

INLINE float get_one(const void *p, int64_t i, uint32_t dt)
{
    return v_get_tail(p, i, 1, dt)[0];
}

#endif
