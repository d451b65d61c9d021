/* Does every strategy leave a phase alone that this version does not know? */

#include "base/err.h"
#include "graph/graph.h"

#include <weft/strategy.h>

#include <test.h>

#include "open.h"

#define LATER 99u /* a phase of a later version */

static uint32_t emitted;

static uint32_t two(void *ctx, const char *axis)
{
    (void)ctx, (void)axis;
    return 2;
}

static uint32_t none(void *ctx)
{
    (void)ctx;
    return 0;
}

/* Stands for each edit: a strategy that emits one in an unknown phase guesses. */
static weft_status any_edit(void)
{
    emitted++;
    return WEFT_OK;
}

static void leaves_it(const char *name, const char *given)
{
    option_values values = {open_component("parallel", name), given};
    const weft_conf conf = conf_of(&values);
    const weft_strategy *s = values.of->table;
    const weft_view view = {.struct_size = sizeof view,
                            .mesh = two,
                            .micro_batches = none,
                            .tensors = none,
                            .blocks = none,
                            .ops = none};
    weft_edits edits = {.struct_size = sizeof edits};
    const size_t first = offsetof(weft_edits, split);
    weft_status (*const edit)(void) = any_edit;
    for (size_t at = first; at < sizeof edits; at += sizeof edit)
        memcpy((char *)&edits + at, &edit, sizeof edit);
    emitted = 0;
    assert_int_equal(s->edit(NULL, &conf, LATER, &view, &edits), WEFT_OK);
    assert_int_equal(emitted, 0);
}

TEST(unknown_phase)
{
    leaves_it("dp", "");
    leaves_it("tp", "");
    leaves_it("pp", "");
}
