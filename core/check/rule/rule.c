/* check/rule/rule.c: update rules: the table of the group. */
#include "check/check.h"

static const check checks[] = {
    {0},
};
const check_group check_group_rule = {"rule", "Rule", checks};
