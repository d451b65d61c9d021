/* base/number/rng.h: random numbers that are a pure function of a key and a counter.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
 * Initial weights are keyed by (seed, parameter name, element) and the data order by (seed,
 * sample), so both are independent of the number of ranks. */
#ifndef BASE_NUMBER_RNG_H
#define BASE_NUMBER_RNG_H

#include <stdint.h>

/* Four uniform 32-bit words of (key, counter). [any] */
void rng_words(uint64_t key, uint64_t counter, uint32_t stream, uint32_t out[4]);

/* Key of a named stream under a seed (FNV-1a of the name mixed with the seed). [any] */
uint64_t rng_key(uint64_t seed, const char *name);

/* Standard normal number `index` of the stream `key` (Box-Muller, in double), the same on every
 * machine. [any] */
double rng_normal(uint64_t key, uint64_t index);

/* Normals first .. first + n - 1 of the stream, times `deviation`, as fp32: the same numbers as
 * rng_normal(), in a fraction of the time; first + n <= 2^64. [any] */
void rng_normals(uint64_t key, uint64_t first, uint64_t n, float deviation, float *out);

/* Uniform integer in [0, n), n > 0, number `index` of the stream; unbiased to 2^-64 n. [any] */
uint64_t rng_below(uint64_t key, uint64_t index, uint64_t n);

/* Uniform real in [0, 1) with 53 bits. [any] */
double rng_uniform(uint64_t key, uint64_t index);

#endif
