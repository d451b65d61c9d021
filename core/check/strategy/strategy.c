/* check/strategy/strategy.c: strategies and placements: the edits of a plan: the table of the
 * group. */
#include "check/check.h"

static const check checks[] = {
    {0},
};
const check_group check_group_strategy = {"strategy", "Strategy and placement", checks};
