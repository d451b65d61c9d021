/* graph_group_test.c: communication over a group of a mesh axis: what it may be, and the placements
 * before and after. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"
#include <weft/coll.h>

#include <test.h>

#include "builtin.h"

static const graph_mesh four = {.n = 1, .name = {"m"}, .size = {4}};
static const uint32_t coords[] = {0, 2, 3};
static const graph_group groups[] = {{"three", 0, 3, coords}, {"one", 0, 1, coords}};

static weft_tensor begin(graph *g, weft_place place)
{
    const weft_shape s = {.dtype = WEFT_F32, .rank = 2, .axes = {{"tokens", 8}, {"embed", 4}}};
    graph_init(g, &four, builtin_ops(), WEFT_F32, WEFT_F32);
    g->now.phase = PHASE_FORWARD;
    g->groups = groups;
    g->ngroups = 2;
    weft_tensor x = graph_add(g, "x", WEFT_T_ACTIVATION, &s);
    graph_tensor_at(g, x)->place[0] = place;
    return x;
}

static weft_status over(graph *g, const char *group, uint32_t kind, uint32_t redop,
                        const char *axis, uint32_t root, weft_tensor x, weft_tensor *out)
{
    const weft_builder b = graph_builder(g);
    const weft_comm_args args = {sizeof args, 0, kind, redop, group, axis, root, 0};
    return b.comm(b.ctx, &args, x, out);
}

/* The placement after it; a text: refused, here or when placements are derived, with that. */
static void becomes(weft_place before, uint32_t kind, uint32_t redop, const char *axis,
                    uint32_t root, const char *said)
{
    graph g;
    weft_tensor y = 0, x = begin(&g, before);
    weft_status st = over(&g, "three", kind, redop, axis, root, x, &y);
    if (st == WEFT_OK)
        st = graph_propagate(&g, 0);
    if (said) {
        assert_int_not_equal(st, WEFT_OK);
        if (!strstr(err_text(), said))
            fail_msg("'%s' does not say '%s'", err_text(), said);
        err_clear();
    } else {
        assert_int_equal(st, WEFT_OK);
        assert_memory_equal(&graph_tensor_at(&g, y)->place[0], &before, sizeof before);
        assert_int_equal(g.nodes.at[0].group, 1);
    }
    graph_free(&g);
}

TEST(in_a_pass)
{
    const weft_place split = {WEFT_SPLIT, 0, 0, 0}, max = {WEFT_PARTIAL_MAX, 0, 0, 0},
                     sum = {WEFT_PARTIAL_SUM, 0, 0, 0}, whole = {WEFT_WHOLE, 0, 0, 0};
    becomes(split, WEFT_SHIFT, 0, NULL, 1, NULL);
    becomes(split, WEFT_SHIFT, 0, NULL, 2, NULL);
    becomes(split, WEFT_SHIFT, 0, NULL, 3, "goes 1 to 2 further");
    becomes(whole, WEFT_SHIFT, 0, NULL, 1, "shift over the group three: x is not split over m");
    becomes(max, WEFT_ALL_REDUCE, WEFT_MAX, NULL, 0, NULL);
    becomes(split, WEFT_ALL_REDUCE, WEFT_MAX, NULL, 0, "x is not a partial maximum over m");
    becomes(sum, WEFT_ALL_REDUCE, WEFT_SUM, NULL, 0, "would be counted by each");
    becomes(split, WEFT_ALL_GATHER, 0, "tokens", 0, "in a pass a group shifts parts and takes");
    becomes(split, WEFT_ALL_TO_ALL, 0, "embed", 0, "in a pass a group shifts parts and takes");
    becomes(sum, WEFT_REDUCE_SCATTER, WEFT_SUM, "embed", 0, "in a pass a group shifts parts");
}

/* One coordinate has nobody to communicate with; a rule and a list have other refusals. */
TEST(elsewhere)
{
    graph g;
    weft_tensor y = 0, x = begin(&g, (weft_place){WEFT_PARTIAL_MAX, 0, 0, 0});
    assert_int_equal(over(&g, "one", WEFT_ALL_REDUCE, WEFT_MAX, NULL, 0, x, &y), WEFT_OK);
    assert_int_equal(y, x);
    g.now.state_of = "x";
    assert_int_equal(over(&g, "three", WEFT_ALL_REDUCE, WEFT_MAX, NULL, 0, x, &y),
                     WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "a rule communicates over mesh axes"));
    g.now.state_of = "";
    assert_int_equal(over(&g, "three", WEFT_SHIFT, 0, NULL, 1, x, &y), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "in a periodic list a group all-reduces"));
    assert_int_equal(over(&g, "three", WEFT_ALL_REDUCE, WEFT_SUM, NULL, 0, x, &y), WEFT_OK);
    graph_free(&g);
}
