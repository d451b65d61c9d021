/* Communication over a group of a mesh axis: what is accepted, and where its output lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <cmocka.h>

static void expect(weft_status got, const char *text)
{
    if (got == WEFT_OK || !strstr(err_text(), text))
        fail_msg("status %d, '%s' where '%s' was expected", (int)got, err_text(), text);
    err_clear();
}

static weft_status over(const weft_builder *b, uint32_t kind, const char *name, uint32_t root,
                        weft_tensor in, weft_tensor *out)
{
    const uint32_t redop = kind == WEFT_ALL_REDUCE ? WEFT_SUM : 0;
    const weft_comm_args args = {sizeof args, 0, kind, redop, name, NULL, root, 0};
    return b->comm(b->ctx, &args, in, out);
}

/* Over a group, only a list all-reduces, and only what each coordinate has of its own. */
static void over_a_group(void **state)
{
    (void)state;
    static const uint32_t coords[] = {0, 1};
    static const graph_group groups[] = {{"one", 1, 1, coords}, {"both", 1, 2, coords}};
    static const mesh m = {.n = 2, .name = {"tp", "dp"}, .size = {2, 2}};
    const weft_shape s = {.rank = 1, .axes = {{"embed", 4}}};
    const weft_param_args args = {sizeof args, 0, "table", &s, "zeros", NULL};
    graph g;
    weft_tensor t, table;
    graph_init(&g, &m, WEFT_F32, WEFT_F32);
    const weft_builder builder = graph_builder(&g), *b = &builder;
    assert_int_equal(b->block(b->ctx, "all", 0), WEFT_OK);
    assert_int_equal(b->param(b->ctx, &args, &table), WEFT_OK);
    g.groups = groups;
    g.ngroups = 2;
    expect(over(b, WEFT_ALL_REDUCE, "both", 0, table, &t),
           "over the group 'both': a group all-reduces in a periodic list");
    g.state_of = "table";
    expect(over(b, WEFT_ALL_REDUCE, "both", 0, table, &t),
           "other communication is over a mesh axis");
    g.list_after = g.tensors.n;
    g.state_of = "";
    expect(over(b, WEFT_SHIFT, "both", 1, table, &t), "a group all-reduces");
    expect(over(b, WEFT_ALL_REDUCE, "bot", 0, table, &t),
           "'bot' is neither a mesh axis of this job");
    const uint32_t before = g.nodes.n;
    assert_int_equal(over(b, WEFT_ALL_REDUCE, "one", 0, table, &t), WEFT_OK);
    assert_int_equal(t, table);
    assert_int_equal(over(b, WEFT_ALL_REDUCE, "both", 0, table, &t), WEFT_OK);
    uint32_t end = g.nodes.n;
    expect(graph_propagate(&g, before, &end), "do not have values of their own of table");
    graph_tensor(&g, table)->place[1].kind = WEFT_PARTIAL_SUM;
    end = g.nodes.n;
    assert_int_equal(graph_propagate(&g, before, &end), WEFT_OK);
    assert_int_equal(graph_tensor(&g, t)->place[1].kind, WEFT_PARTIAL_SUM);
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(over_a_group)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
