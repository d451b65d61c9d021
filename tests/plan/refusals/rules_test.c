/* Unsupported requests of update rules are errors that name rule and call; nothing is silently
 * ignored. The number after a name is the rule's unit: 1 an element, 2 a tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job.h"

#include <test.h>

#define TWO TINY "batch = 4\nmicrobatch = 2\n[parallel]\nstrategy = dp\n[optim]\n"

static void refused(const char *rule, const char *call, const char *why)
{
    static const char *const placements[] = {"none", "zero1", "zero3"};
    for (uint32_t i = 0; i < 3; i++) {
        char text[512], who[64];
        planned j;
        snprintf(text, sizeof text, TWO "rule = %s\nplacement = %s\n", rule, placements[i]);
        snprintf(who, sizeof who, "rule %s", rule);
        weft_status st = planned_make(text, 2, SPEC_TRAIN, &j);
        if (st == WEFT_OK)
            fail_msg("%s is accepted with placement %s", rule, placements[i]);
        assert_int_equal(err_exit_code(st), 2);
        if (!strstr(err_text(), who) || !strstr(err_text(), call) || !strstr(err_text(), why))
            fail_msg("'%s' does not say '%s', '%s' and '%s'", err_text(), who, call, why);
        planned_free(&j);
    }
}

TEST(states)
{
    refused("bytes.1", "state()", "a state is fp32, bf16 or fp16");
    refused("bytes.2", "assign()", "a tensor of another shape or type");
    refused("factored.1", "state()", "the rule's unit is WEFT_UNIT_ELEMENT");
    refused("factored.2", "state()", "keep of 'v' names the axis 'ffn', which p has not");
    refused("single.1", "state()", "is not the parameter that is updated");
}

TEST(scalars)
{
    refused("rate.1", "assign()", "the scalar 'lr', which the core writes");
    refused("rate.2", "assign()", "the scalar 'lr', which the core writes");
    refused("norms.2", "assign()", "once a step, so its value may be made of scalars alone");
    refused("by_flags.1", "assign()", "differs from one parameter to another");
    refused("by_flags.2", "assign()", "differs from one parameter to another");
    refused("twice.1", "assign()", "the scalar 'test.twice' twice");
}
