/* check/rule/rule.c: update rules: the table of the group. */
#include "check/rule/rule.h"

#define RULE "weft.rule/1"

static const check checks[] = {
    {158, RULE, 0, "A rule assigns the parameter and each of its states once",
     "twice or never, for some shape or option", check_rule_assigned},
    {159, RULE, 0, "A rule writes the same graph for parameters of equal shape and flags",
     "the graph depends on the name of the parameter", check_rule_alike},
    {160, RULE, 0, "A range of a rule of unit element may be cut anywhere, with the same bits",
     "the graph depends on the number of elements, or another result in a part", check_rule_cut},
    {161, RULE, 0, "A step that is skipped changes nothing",
     "later updates differ: the rule counts steps where it should count updates", check_rule_gate},
    {162, RULE, 0, "Results are finite at count 1 and 10,000,000, with gradients of 0 and 1e15",
     "a parameter or state becomes infinite or NaN", check_rule_finite},
    {163, RULE, 0, "Weight decay applies to matrices alone",
     "a parameter without WEFT_PARAM_MATRIX shrinks with gradients of 0", check_rule_decay},
    {164, RULE, 0, "Options are used at both bounds, and a wrong number of reals is refused",
     "an option that changes nothing, or a list of another length that is taken",
     check_rule_options},
    {165, RULE, 0, "1,000 updates in fp32 stay close to the formula in double precision",
     "the parameter drifts by more than 1e-3 of its way, or 5e-2 with 16-bit states",
     check_rule_trajectory},
    {166, RULE, 0, "A parameter that is split over ranks is updated as the whole one",
     "another result, for instance because padding does not stay zero", check_rule_split},
    {167, RULE, 0, "A job that is resumed continues with the same bits",
     "the module knows what is in no state, so it is lost", check_rule_resume},
    {168, RULE, 0, "A rule of unit element leaves room for clipping, the gate and a compute copy",
     "more than 32 tensors are read or written with some option", check_rule_capacity},
    {0},
};
const check_group check_group_rule = {"rule", "Rule", checks};
