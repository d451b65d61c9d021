/* kern/random/philox.h: Philox4x32-10, a counter-based random number generator (Salmon, Moraes,
 * Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
 *
 * Ten rounds mix a counter of four words with a key of two that changes from round to round. A
 * round is two products of 32 by 32 bits and six exclusive ors. Each lane has a counter of its own,
 * so that VL counters take about 200 instructions and give 4 VL words. Integers alone: the words
 * are the same with every instruction set. */
#ifndef CPU_PHILOX_H
#define CPU_PHILOX_H

#include "kern/simd/types.h"

#define PHILOX_GROUP 64 /* neighbours that 16 counters give: see plugins/op/builtin/random.c */

/* Both halves of the products with m in all lanes. */
INLINE void philox_product(vu a, vu m, vu *high, vu *low)
{
    typedef uint64_t vw __attribute__((vector_size(VL * 4)));
    const vw even = (vw)v_mul_even(a, m), odd = (vw)v_mul_even((vu)((vw)a >> 32), m);
    *low = (vu)((even & 0xffffffffu) | odd << 32);
    *high = (vu)(even >> 32 | (odd & ~(uint64_t)0xffffffffu));
}

/* Replaces the counters by their words. */
INLINE void philox_words(vu c[4], uint64_t key)
{
    const vu m0 = vu_set1(0xD2511F53u), m1 = vu_set1(0xCD9E8D57u);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        vu high0, low0, high1, low1;
        philox_product(c[0], m0, &high0, &low0);
        philox_product(c[2], m1, &high1, &low1);
        c[0] = high1 ^ c[1] ^ k0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ k1;
        c[3] = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The words of the elements with numbers 64 group ... 64 group + 63. */
INLINE void philox_group(uint64_t group, uint64_t stream, uint64_t seed, uint32_t *out)
{
    static const uint32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int part = 0; part < 16; part += VL) {
        vu lane;
        memcpy(&lane, lanes + part, sizeof lane);
        vu c[4] = {lane + (uint32_t)(group << 4), vu_set1((uint32_t)(group >> 28)),
                   vu_set1((uint32_t)stream), vu_set1((uint32_t)(stream >> 32))};
        philox_words(c, seed);
        for (int w = 0; w < 4; w++)
            memcpy(out + 16 * w + part, &c[w], sizeof c[w]);
    }
}

#endif
