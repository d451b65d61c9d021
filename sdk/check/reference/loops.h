/* check/reference/loops.h: what the files of the reference share; private to this folder. */
#ifndef CHECK_REFERENCE_LOOPS_H
#define CHECK_REFERENCE_LOOPS_H

#include "check/reference/reference.h"

#include <stddef.h>

/* The ops of a file; the last has no id. */
typedef struct check_loops {
    const char *id;
    void (*run)(const check_call *c);
} check_loops;
extern const check_loops check_loops_axis[]; /* along an axis, and batched products */
extern const check_loops check_loops_cached[];
extern const check_loops check_loops_elements[];
extern const check_loops check_loops_random[];
extern const check_loops check_loops_rope[];

void check_loops_each(const check_call *c);    /* an elementwise op */
void check_loops_program(const check_call *c); /* "ew" */

static inline int64_t count_of(const weft_operand *o)
{
    return check_operand_count(o);
}

/* An attribute, or the default that the doc of the op gives it. */
static inline int64_t attr_i(const check_call *c, const char *key, int64_t dflt)
{
    const weft_attr *a = check_call_attr(c, key);
    return a->key ? a->i : dflt;
}

static inline double attr_f(const check_call *c, const char *key, double dflt)
{
    const weft_attr *a = check_call_attr(c, key);
    return a->key ? a->f : dflt;
}

/* Element i of output k is `v`, or has it added. */
static inline void put(const check_call *c, uint32_t k, int64_t i, double v)
{
    c->y[k][i] = (c->flags & WEFT_SPEC_ACCUMULATE ? c->y[k][i] : 0) + v;
}

#endif
