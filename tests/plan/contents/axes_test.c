/* Which axes split the batch is what strategies declare: no graph is built to find it out. Only for
 * an axis without a flag is the family asked for one more. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job.h"
#include "plan/model.h"

#include <test.h>

static uint32_t builds;

/* The linker puts these around the one call of a family's build(). */
weft_status __real_plan_model_build(graph *g, const spec *s, uint32_t dp_size, double average,
                                    uint32_t want, uint64_t *built, weft_tensor *result);
weft_status __wrap_plan_model_build(graph *g, const spec *s, uint32_t dp_size, double average,
                                    uint32_t want, uint64_t *built, weft_tensor *result);

weft_status __wrap_plan_model_build(graph *g, const spec *s, uint32_t dp_size, double average,
                                    uint32_t want, uint64_t *built, weft_tensor *result)
{
    builds++;
    return __real_plan_model_build(g, s, dp_size, average, want, built, result);
}

/* How many graphs planning builds. */
static uint32_t builds_of(const char *strategy, uint32_t ranks)
{
    char text[512];
    planned j;
    snprintf(text, sizeof text, TINY "batch = 4\nmicrobatch = 2\n[parallel]\nstrategy = %s\n",
             strategy);
    builds = 0;
    if (planned_make(text, ranks, SPEC_TRAIN, &j) != WEFT_OK)
        fail_msg("%s on %u ranks is refused: %s", strategy, ranks, err_text());
    planned_free(&j);
    return builds;
}

TEST(declared_axes_cost_no_graph)
{
    const uint32_t alone = builds_of("none", 1);
    assert_in_range(alone, 1, 2); /* of training, and of evaluation */
    assert_int_equal(builds_of("dp", 2), alone);
    assert_int_equal(builds_of("rows", 2), alone);
    assert_int_equal(builds_of("tacit", 2), alone + 1);
    assert_int_equal(builds_of("tacit", 1), alone); /* nothing is split */
}
