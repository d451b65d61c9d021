/* base/number/digest.h: 64-bit FNV-1a (Fowler, Noll, Vo) digests, for comparing things that should
 * be equal. The initial value is our own; initial weights depend on it. It detects accidents, not
 * attacks. */
#ifndef BASE_NUMBER_DIGEST_H
#define BASE_NUMBER_DIGEST_H

#include <stdint.h>

#define DIGEST_BEGIN 1469598103934665603ull

/* Continue the digest with n bytes. [any] */
static inline void digest_mix(uint64_t *digest, const void *bytes, uint64_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = *digest;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211ull;
    *digest = h;
}

#endif
