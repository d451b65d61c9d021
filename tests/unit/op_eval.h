/* An op of a graph in double precision, by tests/ops/referee. Include cmocka.h before it. */
#ifndef OP_EVAL_H
#define OP_EVAL_H

#include <stdint.h>
#include <string.h>
#include <weft/op.h>

#include "referee.h"

typedef struct eval_call {
    const char *id;
    const weft_attr *attrs;
    uint32_t nattr, nin, nout;
    const weft_shape *is, *os; /* [nin], [nout] */
    double *const *in;
    double *const *out;
} eval_call;

static weft_operand eval_operand(const weft_shape *s)
{
    weft_operand o = {.dtype = s->dtype, .rank = s->rank};
    for (uint32_t i = 0; i < s->rank; i++)
        o.size[i] = s->axes[i].size;
    return o;
}

static int64_t eval_elements(const weft_shape *s)
{
    const weft_operand o = eval_operand(s);
    return count_of(&o);
}

static void eval_op(const eval_call *e)
{
    struct call c = {.id = e->id, .nattr = e->nattr, .nin = e->nin, .nout = e->nout};
    assert_in_range(e->nattr, 0, sizeof c.attr / sizeof *c.attr);
    memcpy(c.attr, e->attrs, e->nattr * sizeof *c.attr);
    for (uint32_t k = 0; k < e->nin; k++) {
        c.in[k] = eval_operand(&e->is[k]);
        c.x[k] = e->in[k];
    }
    for (uint32_t k = 0; k < e->nout; k++) {
        c.out[k] = eval_operand(&e->os[k]);
        c.y[k] = e->out[k];
    }
    referee(&c);
}

#endif
