/* check/op/op.c: ops and kernels: the table of the group. */
#include "check/check.h"

static const check checks[] = {
    {0},
};
const check_group check_group_op = {"op", "Op and kernel", checks};
