/* base/number/rng.c: see rng.h. */
#include "base/number/rng.h"

#include "base/number/digest.h"

#include <math.h>
#include <string.h>

/* Loops around these are vectorized. */
#define INLINE static inline __attribute__((always_inline))

enum stream { NORMAL = 1, UNIFORM, BELOW };

/* Words w[0][i] ... w[3][i] of the counter first + i: ten rounds, each of all n counters. */
INLINE void philox(uint64_t key, uint64_t first, uint32_t stream, uint64_t n, uint32_t w[4][n])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (uint64_t i = 0; i < n; i++) {
        w[0][i] = (uint32_t)(first + i);
        w[1][i] = (uint32_t)((first + i) >> 32);
        w[2][i] = stream;
        w[3][i] = 0;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * w[0][i];
            const uint64_t p1 = (uint64_t)0xCD9E8D57u * w[2][i];
            w[0][i] = (uint32_t)(p1 >> 32) ^ w[1][i] ^ k0;
            w[2][i] = (uint32_t)(p0 >> 32) ^ w[3][i] ^ k1;
            w[1][i] = (uint32_t)p1;
            w[3][i] = (uint32_t)p0;
        }
}

INLINE uint64_t bits_of(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

INLINE double of_bits(uint64_t b)
{
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* n < 2^52; a conversion of 64 bits would have no vector instruction. */
INLINE double of_integer(uint64_t n)
{
    return of_bits(n | 0x4330000000000000u) - 0x1p52;
}

/* The 53 highest bits of two words. */
INLINE double of_words(uint32_t high, uint32_t low)
{
    return of_integer(high) * 0x1p21 + of_integer(low >> 11);
}

void rng_words(uint64_t key, uint64_t counter, uint32_t stream, uint32_t out[4])
{
    philox(key, counter, stream, 1, (uint32_t(*)[1])out);
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
    rng_words(key, index, UNIFORM, w);
    return of_words(w[0], w[1]) * 0x1p-53;
}

uint64_t rng_below(uint64_t key, uint64_t index, uint64_t n)
{
    uint32_t w[4];
    rng_words(key, index, BELOW, w);
    uint64_t r = (uint64_t)w[0] << 32 | w[1];
    return (uint64_t)(((unsigned __int128)r * n) >> 64);
}

/* A normal number is r cos(2 pi v) or r sin(2 pi v) with r = sqrt(-2 ln u), u and v uniform (Box
 * and Muller, 1958). ln, sin and cos are the polynomials of fdlibm (Sun Microsystems, 1993), within
 * 2 units of the last place. They have neither branches nor tables, so compilers work on several
 * pairs at once, in a quarter of the time of libm's; and IEEE 754 alone defines every operation, so
 * all machines draw the same numbers. */

/* x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); s = f / (2 + f). x is positive and normal. */
INLINE double natural_log(double x)
{
    const uint64_t one = 0x3ff0000000000000u, root = 0x3fe6a09e667f3bcdu,
                   b = bits_of(x) + one - root;
    const double k = of_integer(b >> 52) - 1023;
    const double f = of_bits((b & 0xfffffffffffffu) + root) - 1;
    const double s = f / (2 + f), z = s * s, w = z * z, h = 0.5 * f * f;
    const double even = w * (3.999999999940941908e-01 +
                             w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double odd = z * (6.666666666666735130e-01 +
                            w * (2.857142874366239149e-01 +
                                 w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    return k * 6.93147180369123816490e-01 -
           (h - (s * (h + even + odd) + k * 1.90821492927058770002e-10) - f);
}

/* -pi/4 <= x <= pi/4 for both, z = x x. */
INLINE double near_sin(double x, double z)
{
    const double p = 8.33333333332248946124e-03 +
                     z * (-1.98412698298579493134e-04 +
                          z * (2.75573137070700676789e-06 +
                               z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
    return x + x * z * (-1.66666666666666324348e-01 + z * p);
}

INLINE double near_cos(double z)
{
    const double p = -1.38888888888741095749e-03 +
                     z * (2.48015872894767294178e-05 +
                          z * (-2.75573143513906633035e-07 +
                               z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)));
    return 1 - (0.5 * z - z * z * (4.16666666666666019037e-02 + z * p));
}

/* The two normals of words drawn for them; the angle is a number of quarter turns and a rest. */
INLINE void normal_pair(uint32_t a, uint32_t b, uint32_t c, uint32_t d, double *cosine,
                        double *sine)
{
    const double u = (of_words(a, b) + 0.5) * 0x1p-53, v = of_words(c, d) * 0x1p-53;
    const double rounded = v * 4 + 0x1.8p52, radius = sqrt(-2.0 * natural_log(u));
    const double x = (v - (rounded - 0x1.8p52) * 0.25) * 6.283185307179586476925;
    const uint64_t turns = bits_of(rounded), swap = -(turns & 1);
    const uint64_t sin_x = bits_of(near_sin(x, x * x)), cos_x = bits_of(near_cos(x * x));
    *cosine = radius * of_bits(((cos_x & ~swap) | (sin_x & swap)) ^ ((turns + 1) & 2) << 62);
    *sine = radius * of_bits(((sin_x & ~swap) | (cos_x & swap)) ^ (turns & 2) << 62);
}

double rng_normal(uint64_t key, uint64_t index)
{
    uint32_t w[4];
    double pair[2];
    rng_words(key, index / 2, NORMAL, w);
    normal_pair(w[0], w[1], w[2], w[3], &pair[0], &pair[1]);
    return pair[index % 2];
}

/* Pairs are drawn in blocks, of which the first and the last may have more than is asked for. */
void rng_normals(uint64_t key, uint64_t first, uint64_t n, float deviation, float *out)
{
    enum { PAIRS = 64 };
    uint32_t w[4][PAIRS];
    double pair[2][PAIRS];
    for (uint64_t done = 0, skip = first % 2; done < n; skip = 0) {
        philox(key, (first + done) / 2, NORMAL, PAIRS, w);
        for (uint64_t i = 0; i < PAIRS; i++)
            normal_pair(w[0][i], w[1][i], w[2][i], w[3][i], &pair[0][i], &pair[1][i]);
        for (uint64_t i = skip; i < 2 * PAIRS && done < n; i++)
            out[done++] = (float)(pair[i % 2][i / 2] * (double)deviation);
    }
}
