/* base/number/digest.h: marks by which things that ought to be equal are compared: FNV-1a (Fowler,
 * Noll, Vo) in 64 bits, begun at a number of our own, which initial weights depend on. It protects
 * from accidents, and from nobody who wants two things to have one mark. */
#ifndef BASE_NUMBER_DIGEST_H
#define BASE_NUMBER_DIGEST_H

#include <stdint.h>

#define DIGEST_BEGIN 1469598103934665603ull

/* Go on with n bytes. [any] */
static inline void digest_mix(uint64_t *digest, const void *bytes, uint64_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = *digest;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211ull;
    *digest = h;
}

#endif
