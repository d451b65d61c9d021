/* cases.h: calls of each op with random operands. */
#ifndef OPS_CASES_H
#define OPS_CASES_H

#include "harness.h"

/* Sizes of a case; each op uses some. */
struct sizes {
    int64_t tokens, cols, inner, heads, dim, sequence, vocab, valid, first;
    int64_t kv_heads; /* attention: 0 for queries, keys and values in one operand */
    int causal, bias;
    int64_t reach; /* attention: 0 for none, else reach is from -2 up to this, at random */
    int placed;    /* rope: positions are an operand */
    int unread;    /* joined ops: nobody reads what lies between them */
};

/* Fill `c` with a call of `id`: compute type `ct`, gradients in `gt`. Inputs that come out of a
 * forward op (mean, rstd, y, lse) are the reference's. */
void make_call(check_call *c, const char *id, const struct sizes *n, uint32_t ct, uint32_t gt);

/* axis.c: ops along an axis, and batched products. */
int is_axis(const char *id);
void make_axis(check_call *c, const struct sizes *n, uint32_t ct, uint32_t gt);

/* The pieces: an operand with values in [lo, hi), and outputs without values. */
double *add_input(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size, double lo,
                  double hi);
void add_output(check_call *c, uint32_t dtype, uint32_t rank, const int64_t *size);

#endif
