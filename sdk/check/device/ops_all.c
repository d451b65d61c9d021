/* check/device/ops_all.c: every call that a device accepts, and every pair of ops that it may fuse,
 * one after the other. See ops.h. */
#include "check/device/ops.h"

/* Whether the device accepts the call, and the rule was called. */
static bool look(check_dev *b, check_call *c, check_ops_rule rule)
{
    const bool yes = check_bench_accepts(b, c, NULL);
    if (yes)
        rule(b, c);
    check_call_end(c);
    return yes;
}

void check_ops_all(check_dev *b, check_ops_rule rule)
{
    static const check_sizes sizes = {.n = 30011, .rows = 67, .in = 33, .out = 35};
    static check_call c;
    uint32_t seen = 0;
    const host_component *op;
    for (uint32_t k = 0; (op = host_own_op(b->run->h, k)); k++)
        for (uint32_t i = 0; check_example(op->name, op->table, i, WEFT_F32, &c); i++)
            seen += look(b, &c, rule);
    for (uint32_t i = 0; check_case(i, &sizes, WEFT_F32, &c); i++)
        seen += look(b, &c, rule);
    if (!seen)
        check_not_applicable("query() of '%s' accepts none of the ops of weft that this check "
                             "has",
                             b->who);
}

/* Elementwise ops are fused to programs, and ops of these flags stay alone. */
static bool fusable(const weft_op *op)
{
    return !(op->flags & (WEFT_OP_ELEMENTWISE | WEFT_OP_SHAPE_LAST)) && !op->first_input;
}

void check_ops_pairs(check_dev *b, check_ops_pair fn)
{
    const host_component *ops[2];
    for (uint32_t i = 0; WEFT_HAS(b->t, fuse) && (ops[0] = host_own_op(b->run->h, i)); i++)
        for (uint32_t k = 0; fusable(ops[0]->table) && (ops[1] = host_own_op(b->run->h, k)); k++) {
            if (!fusable(ops[1]->table))
                continue;
            fn(b, ops, WEFT_FUSE_CHAINED);
            fn(b, ops, WEFT_FUSE_SHARED_INPUT);
        }
}
