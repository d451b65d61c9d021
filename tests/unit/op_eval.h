/* An op of a graph in double precision, by check/reference. Include cmocka.h before it. */
#ifndef OP_EVAL_H
#define OP_EVAL_H

#include <stdint.h>
#include <string.h>

#include "check/reference/reference.h"

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

static void eval_begin_op(check_call *c, const char *id, const weft_attr *attrs, uint32_t nattr)
{
    check_call_begin(c, id);
    assert_true(check_call_attrs(c, attrs, nattr));
}

static void eval_op(const check_call *c)
{
    if (!check_reference(c))
        fail_msg("check/reference does not know the op %s", c->id);
}

#endif
