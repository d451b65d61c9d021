/* kern/attention.h: one head of one sequence, as both directions of attention see it. */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "types.h"
#include <math.h>

INLINE int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* qkv: [T, 3, H, D]; y and dy: [T, H, D]; lse: [T, H]. */
struct head {
    int64_t n, d, dp; /* tokens; dimension, and rounded up to whole vectors */
    int64_t causal;
    int64_t stride, ystride, lstride; /* from token to token */
    int64_t qkv, y, lse;              /* first element of token 0; K and V follow H*D further */
    int64_t next;                     /* H*D */
    float scale;
};

INLINE struct head head_of(const struct cpu_args *a, int64_t item)
{
    const int64_t s = item / a->heads, h = item % a->heads, t = s * a->sequence;
    const int64_t next = a->heads * a->dim;
    return (struct head){.n = a->sequence,
                         .d = a->dim,
                         .dp = round_up(a->dim, VL),
                         .causal = a->causal,
                         .stride = 3 * next,
                         .ystride = next,
                         .lstride = a->heads,
                         .qkv = t * 3 * next + h * a->dim,
                         .y = t * next + h * a->dim,
                         .lse = t * a->heads + h,
                         .next = next,
                         .scale = 1.0f / sqrtf((float)a->dim)};
}

/* `n` words of the scratch at *p, which moves on. */
INLINE void *take(char **p, int64_t n)
{
    char *r = *p;
    *p += round_up(n * 4, 64);
    return r;
}

#endif
