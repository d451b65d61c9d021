/* order.c: the order of samples, and digests; see source.h.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011)
 * of the sample's number, with a key of the seed. Checkpoints of all versions depend on these
 * numbers. */
#include <string.h>

#include "source.h"

static void words(uint64_t key, uint64_t counter, uint32_t stream, uint32_t out[4])
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), stream, 0};
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (int i = 0; i < 10; i++) {
        const uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(q >> 32) ^ c[1] ^ k[0];
        c[2] = (uint32_t)(p >> 32) ^ c[3] ^ k[1];
        c[1] = (uint32_t)q;
        c[3] = (uint32_t)p;
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

void source_digest(uint64_t *digest, const void *bytes, uint64_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t h = *digest;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211ull;
    *digest = h;
}

uint64_t source_order_key(uint64_t seed)
{
    uint64_t h = SOURCE_DIGEST_BEGIN;
    uint32_t w[4];
    source_digest(&h, "data.order", 10);
    words(h, seed, 0x57454654u, w);
    return (uint64_t)w[0] << 32 | w[1];
}

uint64_t source_order_below(uint64_t key, uint64_t sample, uint64_t n)
{
    uint32_t w[4];
    words(key, sample, 3, w);
    const uint64_t r = (uint64_t)w[0] << 32 | w[1];
    return (uint64_t)(((unsigned __int128)r * n) >> 64);
}

/* --- permutations --- */

#define ROUNDS 4u /* of both halves */
#define EPOCH_STREAM 4u
#define ROUND_STREAM 16u /* and those behind it */

/* A number below n. */
static uint64_t draw(uint64_t key, uint64_t counter, uint32_t stream, uint64_t n)
{
    uint32_t w[4];
    words(key, counter, stream, w);
    const uint64_t r = (uint64_t)w[0] << 32 | w[1];
    return (uint64_t)(((unsigned __int128)r * n) >> 64);
}

/* The least number whose square is at least n. */
static uint64_t root_above(uint64_t n)
{
    uint64_t low = 1, high = (uint64_t)1 << 32;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if ((unsigned __int128)middle * middle >= n)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* A Feistel network over pairs (x, y), x below a and y below b, with a * b just above n: each round
 * adds to one half a number that depends on the other, which is undone by subtracting it. What
 * leaves the numbers below n walks on until it is back, so that these are permuted, too ("cycle
 * walking"; Black, Rogaway: "Ciphers with arbitrary finite domains", 2002). */
uint64_t source_order_permute(uint64_t key, uint64_t epoch, uint64_t n, uint64_t i)
{
    uint32_t w[4];
    const uint64_t a = root_above(n), b = (n + a - 1) / a;
    words(key, epoch, EPOCH_STREAM, w);
    const uint64_t own = (uint64_t)w[0] << 32 | w[1];
    do {
        uint64_t x = i / b, y = i % b;
        for (uint32_t r = 0; r < ROUNDS; r++) {
            x = (x + draw(own, y, ROUND_STREAM + 2 * r, a)) % a;
            y = (y + draw(own, x, ROUND_STREAM + 2 * r + 1, b)) % b;
        }
        i = x * b + y;
    } while (i >= n);
    return i;
}
