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
