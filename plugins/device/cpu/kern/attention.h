/* kern/attention.h: addresses one head of one sequence for the forward and backward pass of
 * attention, with fused or separate operands. */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "kern/simd/types.h"
#include <math.h>

/* Location of one head in an operand, in elements; `at` is token 0 of the sequence. Operand 0 is
 * that of the queries. */
struct rows {
    int64_t operand, at, stride; /* stride: between tokens */
};

/* Fused: one operand [T, 3, H, D]. Grouped-query attention: q [T, H, D], k and v [T, G, D]; H / G
 * adjacent query heads share one key/value head. y and dy: [T, H, D]; lse: [T, H]. */
struct head {
    int64_t n, d, dp; /* tokens; dimension; dimension rounded up to vectors */
    int64_t causal;
    struct rows q, k, v, y;
    int64_t lse, lstride;
    float scale;
    const int32_t *reach; /* [n]; NULL: to the beginning of the sequence */
};

/* Query head h of sequence s. */
INLINE struct head head_of(const struct cpu_job *j, int64_t s, int64_t h)
{
    const struct cpu_args *a = j->a;
    const int64_t t = s * a->sequence, row = a->heads * a->dim, at = h * a->dim;
    struct head r = {.n = a->sequence,
                     .d = a->dim,
                     .dp = round_up(a->dim, VL),
                     .causal = a->causal,
                     .y = {0, t * row + at, row},
                     .lse = t * a->heads + h,
                     .lstride = a->heads,
                     .scale = 1.0f / sqrtf((float)a->dim),
                     .reach = a->reach ? (const int32_t *)j->in[a->reach] + t : NULL};
    if (a->fused) {
        r.q = (struct rows){0, t * 3 * row + at, 3 * row};
        r.k = (struct rows){0, r.q.at + row, 3 * row};
        r.v = (struct rows){0, r.k.at + row, 3 * row};
    } else {
        const int64_t kv_row = a->kv_heads * a->dim, kv = h / (a->heads / a->kv_heads);
        r.q = r.y;
        r.k = (struct rows){1, t * kv_row + kv * a->dim, kv_row};
        r.v = (struct rows){2, r.k.at, kv_row};
    }
    return r;
}

/* The first key that query q attends to. Any reach is lawful: a query attends to itself, and to no
 * token before its sequence. */
INLINE int64_t first_key(const struct head *h, int64_t q)
{
    const int64_t reach = h->reach ? h->reach[q] : q;
    return reach >= q ? 0 : reach > 0 ? q - reach : q;
}

/* The first key that any of n queries from q0 on attends to. */
INLINE int64_t first_key_of(const struct head *h, int64_t q0, int64_t n)
{
    int64_t first = h->reach ? first_key(h, q0) : 0;
    for (int64_t r = 1; h->reach && r < n; r++)
        first = smaller(first, first_key(h, q0 + r));
    return first;
}

/* Address of token t of a head; first[0] is the operand of the queries. */
INLINE const char *token_of(const void *const *first, const struct rows *r, int64_t t,
                            const uint32_t dt)
{
    return (const char *)first[r->operand] + (r->at + t * r->stride) * dt_size(dt);
}

/* Allocate `n` 32-bit words of scratch at *p and advance *p. */
INLINE void *take(char **p, int64_t n)
{
    char *r = *p;
    *p += round_up(n * 4, 64);
    return r;
}

#endif
