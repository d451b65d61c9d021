/* mixture.h: whose turn it is in a mixture.
 *
 * The order depends on the weights alone. After any number of samples n, set i of weight w(i) out
 * of W has had n w(i) / W of them, less than one more or fewer (Tijdeman, "The chairman assignment
 * problem", 1980). It repeats after W samples, so one period is kept. */
#ifndef MIXTURE_H
#define MIXTURE_H

#include "source.h"

#define MIXTURE_PERIOD (1u << 20) /* the longest: W */

typedef struct mixture {
    const weft_host *host;
    uint64_t period;
    const uint64_t *weight; /* [n] */
    uint8_t *turn;          /* [period] the set of each sample */
    uint32_t *before;       /* [period] samples of that set in the period before it */
} mixture;

/* For n sets, at most 64, whose weights (borrowed) have no common divisor. WEFT_USAGE: their sum is
 * above MIXTURE_PERIOD. [setup] */
weft_status mixture_open(const weft_host *host, const char *key, const uint64_t *weight, uint32_t n,
                         mixture *out);
void mixture_close(mixture *m); /* a zeroed one is allowed [setup] */

/* The set that sample `sample` is of; *number: how many samples of the set come before it. [any] */
uint32_t mixture_turn(const mixture *m, uint64_t sample, uint64_t *number);

#endif
