/* base/number/rng.c: see rng.h. */
#include "base/number/rng.h"

#include "base/number/digest.h"

#include <math.h>
#include <string.h>

static void philox_round(uint32_t c[4], const uint32_t k[2])
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k[0];
    uint32_t c2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k[1];
    c[1] = (uint32_t)p1;
    c[3] = (uint32_t)p0;
    c[0] = c0;
    c[2] = c2;
}

void rng_words(uint64_t key, uint64_t counter, uint32_t stream, uint32_t out[4])
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), stream, 0};
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (int i = 0; i < 10; i++) {
        philox_round(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

uint64_t rng_key(uint64_t seed, const char *name)
{
    uint64_t h = DIGEST_BEGIN;
    digest_mix(&h, name, strlen(name));
    uint32_t w[4];
    rng_words(h, seed, 0x57454654u, w);
    return (uint64_t)w[0] << 32 | w[1];
}

double rng_uniform(uint64_t key, uint64_t index)
{
    uint32_t w[4];
    rng_words(key, index, 2, w);
    return (double)(((uint64_t)w[0] << 32 | w[1]) >> 11) * 0x1p-53;
}

uint64_t rng_below(uint64_t key, uint64_t index, uint64_t n)
{
    uint32_t w[4];
    rng_words(key, index, 3, w);
    uint64_t r = (uint64_t)w[0] << 32 | w[1];
    return (uint64_t)(((unsigned __int128)r * n) >> 64);
}

/* Two normals per counter: the pair shares its words. */
static void normal_pair(uint64_t key, uint64_t pair, double out[2])
{
    uint32_t w[4];
    rng_words(key, pair, 1, w);
    double u = ((double)(((uint64_t)w[0] << 32 | w[1]) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(((uint64_t)w[2] << 32 | w[3]) >> 11) * 0x1p-53;
    double r = sqrt(-2.0 * log(u)), a = 6.283185307179586476925 * v;
    out[0] = r * cos(a);
    out[1] = r * sin(a);
}

double rng_normal(uint64_t key, uint64_t index)
{
    double pair[2];
    normal_pair(key, index / 2, pair);
    return pair[index % 2];
}

void rng_normals(uint64_t key, uint64_t first, uint64_t n, float deviation, float *out)
{
    double pair[2] = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 2 == 0)
            normal_pair(key, index / 2, pair);
        out[i] = (float)(pair[index % 2] * (double)deviation);
    }
}
