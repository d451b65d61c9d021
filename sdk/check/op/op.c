/* check/op/op.c: ops and kernels: the table of the group. */
#include "check/op/op.h"
#include "check/op/kernels.h"

#define OP "weft.op/1"

static const check checks[] = {
    {169, OP, 0, "infer() works for whole and local sizes, within the room for results",
     "it writes more results than *nout allows, or another shape than its doc says",
     check_op_shapes},
    {170, OP, 0, "A wrong number of operands, rank, type or attribute is refused with a sentence",
     "WEFT_OK, or a failure without a sentence", check_op_refuses},
    {171, OP, 0, "Gradients are those of finite differences, of activations and of parameters",
     "an element is off by more than 2 percent and 1/200 of the largest one", check_op_gradients},
    {172, OP, 0, "grad() works where a gradient flows into some of the outputs only",
     "it ends the process, or fails without a sentence", check_op_subsets},
    {173, OP, 0, "Each split that an op accepts, computed in parts, gives what the whole gives",
     "another result, or a sum where there is a part", check_op_parts},
    {174, OP, 0, "A placement that an op cannot compute on is refused with a sentence",
     "WEFT_UNSUPPORTED without a sentence", check_op_says_why},
    {175, OP, 0, "`whole` names axes that operands of the op can have",
     "it names an axis that is in no operand of the doc", check_op_whole_axes},
    {176, OP, 0, "flops() is finite, not negative, and in proportion to the tokens",
     "a negative or infinite cost, or one that is not linear in the tokens", check_op_flops},
    {177, OP, 0, "in_place and first_input are what the kernels do",
     "another result in place of the input, or in parts that know where they begin",
     check_op_in_place},
    {178, OP, 0, "Attributes are told apart by their whole keys, of up to 63 bytes",
     "an attribute whose key begins like the op's own changes an answer", check_op_keys},
    {179, "weft.kernel/1", 20,
     "A kernel keeps the rules of a device's kernels: 67, 68 and 84 to 88", "as there",
     check_op_kernels},
    {180, "weft.kernel/1", 20, "A kernel has the results of the device's own kernel",
     "an element differs by more than rounding", check_op_kernels_differ},
    {0},
};
const check_group check_group_op = {"op", "Op and kernel", checks};
