/* An op of a graph in double precision, by check/reference. Include cmocka.h before it. */
#ifndef OP_EVAL_H
#define OP_EVAL_H

#include <stdint.h>
#include <string.h>

#include "check/reference/reference.h"

typedef struct eval_call {
    const char *id;
    const weft_attr *attrs;
    uint32_t nattr, nin, nout;
    const weft_shape *is, *os; /* [nin], [nout] */
    double *const *in;
    double *const *out;
} eval_call;

static int64_t eval_elements(const weft_shape *s)
{
    const weft_operand o = check_operand(s);
    return check_operand_count(&o);
}

/* Does the op give other axes to the same numbers? */
static inline bool eval_relabels(const char *id)
{
    return !strcmp(id, "rename") || !strcmp(id, "merge") || !strcmp(id, "unmerge");
}

static void eval_op(const eval_call *e)
{
    check_call c;
    check_call_begin(&c, e->id);
    assert_in_range(e->nattr, 0, CHECK_CALL_ATTRS);
    memcpy(c.attrs, e->attrs, e->nattr * sizeof *c.attrs);
    c.nattr = e->nattr;
    for (uint32_t k = 0; k < e->nin; k++)
        check_call_from(&c, e->is[k], e->in[k]);
    for (uint32_t k = 0; k < e->nout; k++)
        check_call_to(&c, e->os[k], e->out[k]);
    if (!check_reference(&c))
        fail_msg("check/reference does not know the op %s", e->id);
}

#endif
