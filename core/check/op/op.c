/* check/op/op.c: ops and kernels: the table of the group. */
#include "check/op/op.h"

#define OP "weft.op/1"

static const check checks[] = {
    {169, OP, 0, "infer() works for whole and local sizes, within the room for results",
     "it writes more results than *nout allows, or another shape than its doc says",
     check_op_shapes},
    {170, OP, 0, "A wrong number of operands, rank, type or attribute is refused with a sentence",
     "WEFT_OK, or a failure without a sentence", check_op_refuses},
    {172, OP, 0, "grad() works where a gradient flows into some of the outputs only",
     "it ends the process, or fails without a sentence", check_op_subsets},
    {174, OP, 0, "A placement that an op cannot compute on is refused with a sentence",
     "WEFT_UNSUPPORTED without a sentence", check_op_says_why},
    {175, OP, 0, "`whole` names axes that operands of the op can have",
     "it names an axis that is in no operand of the doc", check_op_whole_axes},
    {176, OP, 0, "flops() is finite, not negative, and in proportion to the tokens",
     "a negative or infinite cost, or one that is not linear in the tokens", check_op_flops},
    {0},
};
const check_group check_group_op = {"op", "Op and kernel", checks};
