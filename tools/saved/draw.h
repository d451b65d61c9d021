/* saved/draw.h: draws a token from logits.
 *
 * Temperature divides the logits; `top` keeps the K largest; `mass` keeps, of these, the largest
 * whose probabilities add up to at least that much. Logits equal to the smallest that is kept are
 * kept as well, so that the result does not depend on an order among equals. The draw is a function
 * of the logits, the seed and the number of the draw: the same bits of logits give the same token
 * on every rank and machine. */
#ifndef SAVED_DRAW_H
#define SAVED_DRAW_H

#include <stdint.h>

typedef struct saved_draw {
    double temperature; /* 0: the likeliest token; of equal ones the first */
    uint64_t top;       /* 0: all */
    double mass;        /* above 0; 1 or more: all */
    uint64_t seed;
} saved_draw;

/* `capacity` has space for `n` numbers. [any] */
int32_t saved_draw_token(const saved_draw *d, const float *logits, uint64_t n, uint64_t number,
                         double *capacity);

/* The natural logarithm of the probability that the model gives a token, at temperature 1, to 1e-6.
 * [any] */
double saved_draw_log_probability(const float *logits, uint64_t n, int32_t token);

#endif
