/* Philox4x32-10 as its paper writes it, one word at a time, and what random.c of plugins/op/builtin
 * makes of it: the reference for random numbers. tests/ops/random_test.c holds it against the
 * published vectors. */
#ifndef CHECK_REFERENCE_PHILOX_H
#define CHECK_REFERENCE_PHILOX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4], k[2] = {key[0], key[1]};
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                                  (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

/* Word `w` of the counter of element `number`. */
static inline uint32_t philox_word(uint64_t number, uint32_t w, uint64_t stream, uint64_t seed)
{
    const uint64_t at = number / 64 * 16 + number % 16;
    const uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)stream,
                                 (uint32_t)(stream >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    philox_block(counter, key, words);
    return words[w];
}

static inline int philox_drops(uint64_t number, uint64_t stream, uint64_t seed, double p)
{
    return philox_word(number, number % 64 / 16, stream, seed) < (uint32_t)(p * 4294967296.0);
}

static inline double philox_uniform(uint64_t number, uint64_t stream, uint64_t seed)
{
    return (philox_word(number, number % 64 / 16, stream, seed) >> 8) / 16777216.0;
}

static inline double philox_normal(uint64_t number, uint64_t stream, uint64_t seed)
{
    const uint32_t first = number % 64 / 32 * 2;
    const double u = (philox_word(number, first, stream, seed) + 0.5) / 4294967296.0;
    const double turn =
        6.283185307179586 * philox_word(number, first + 1, stream, seed) / 4294967296.0;
    return sqrt(-2 * log(u)) * (number % 32 < 16 ? cos(turn) : sin(turn));
}

#endif
