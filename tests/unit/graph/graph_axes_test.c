/* graph_axes_test.c: ops that give other axes to the same numbers: names, shapes, gradients, splits
 * and refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"

/* The same numbers under another name: shape, split and gradient go with the axis. */
TEST(renamed)
{
    graph_mesh m = {.n = 1, .name = {"m"}, .size = {2}};
    graph g;
    graph_init(&g, &m, builtin_ops(), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    weft_shape s = {.dtype = WEFT_F32, .rank = 2, .axes = {{"rows", 4}, {"cols", 6}}}, got;
    weft_tensor x = graph_add(&g, "x", WEFT_T_ACTIVATION, &s), y, dx = 0;
    graph_tensor_at(&g, x)->place[0] = (weft_place){WEFT_SPLIT, 1, 0, 0};
    const weft_attr to = WEFT_ATTR_INT("others", 1), taken = WEFT_ATTR_INT("rows", 1),
                    beyond = WEFT_ATTR_INT("others", 2);
    assert_int_equal(b.op(b.ctx, "rename", &to, 1, &x, 1, 0, &y, 1), WEFT_OK);
    assert_int_equal(b.shape(b.ctx, y, &got), WEFT_OK);
    assert_string_equal(got.axes[1].name, "others");
    assert_int_equal(got.axes[1].size, 6);
    assert_int_equal(graph_propagate(&g, 0), WEFT_OK);
    assert_int_equal(graph_tensor_at(&g, y)->place[0].kind, WEFT_SPLIT);
    assert_int_equal(graph_tensor_at(&g, y)->place[0].axis, 1);
    const weft_opcall call = {sizeof call, 1, &to, 1, 1, &x, &y, &y};
    assert_int_equal(builtin_op("rename")->grad(&self, &call, WEFT_GRAD_INPUTS, &dx), WEFT_OK);
    assert_int_equal(b.shape(b.ctx, dx, &got), WEFT_OK);
    assert_string_equal(got.axes[1].name, "cols");
    assert_int_equal(b.op(b.ctx, "rename", &taken, 1, &x, 1, 0, &y, 1), WEFT_USAGE);
    assert_int_equal(b.op(b.ctx, "rename", &beyond, 1, &x, 1, 0, &y, 1), WEFT_USAGE);
    graph_free(&g);
}

/* The place of `id` of a tensor with these axes, of which `axis` is split over `size`. */
static weft_status place_of(const char *id, const weft_attr *attrs, uint32_t nattr,
                            const weft_shape *s, uint32_t axis, uint32_t size, weft_place *out)
{
    graph_mesh m = {.n = 1, .name = {"m"}, .size = {size}};
    graph g;
    graph_init(&g, &m, builtin_ops(), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    weft_tensor x = graph_add(&g, "x", WEFT_T_ACTIVATION, s), y;
    graph_tensor_at(&g, x)->place[0] = (weft_place){WEFT_SPLIT, axis, 0, 0};
    assert_int_equal(b.op(b.ctx, id, attrs, nattr, &x, 1, 0, &y, 1), WEFT_OK);
    weft_status st = graph_shard_node(&g, 0, 0, out);
    graph_free(&g);
    return st;
}

/* 5 rows over 2 ranks, of which the last has a row of padding: a copy keeps it. */
TEST(a_padded_axis_is_renamed)
{
    const weft_shape s = {.dtype = WEFT_F32, .rank = 2, .axes = {{"rows", 5}, {"cols", 6}}};
    const weft_attr to = WEFT_ATTR_INT("others", 0);
    weft_place p;
    assert_int_equal(place_of("rename", &to, 1, &s, 0, 2, &p), WEFT_OK);
    assert_int_equal(p.kind, WEFT_SPLIT);
    assert_int_equal(p.axis, 0);
}

/* Two axes as one and back: shapes, gradients, and which splits are consecutive parts of both. */
TEST(merged)
{
    graph_mesh m = {0};
    graph g;
    graph_init(&g, &m, builtin_ops(), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    const weft_shape s = {.dtype = WEFT_F32,
                          .rank = 4,
                          .axes = {{"three", 3}, {"heads", 6}, {"dim", 4}, {"embed", 5}}};
    const weft_shape flat = {
        .dtype = WEFT_F32, .rank = 3, .axes = {{"three", 3}, {"rows", 24}, {"embed", 5}}};
    weft_shape got;
    weft_tensor x = graph_add(&g, "x", WEFT_T_ACTIVATION, &s), y, z, d = 0;
    const weft_attr one = WEFT_ATTR_INT("rows", 1),
                    two[] = {WEFT_ATTR_INT("heads", 1), WEFT_ATTR_INT("dim", 2),
                             WEFT_ATTR_INT("size", 4)};
    assert_int_equal(b.op(b.ctx, "merge", &one, 1, &x, 1, 0, &y, 1), WEFT_OK);
    assert_int_equal(b.shape(b.ctx, y, &got), WEFT_OK);
    assert_int_equal(got.rank, 3);
    assert_string_equal(got.axes[1].name, "rows");
    assert_int_equal(got.axes[1].size, 24);
    assert_string_equal(got.axes[2].name, "embed");
    assert_int_equal(b.op(b.ctx, "unmerge", two, 3, &y, 1, 0, &z, 1), WEFT_OK);
    assert_int_equal(b.shape(b.ctx, z, &got), WEFT_OK);
    assert_int_equal(got.rank, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(got.axes[i].name, s.axes[i].name);
        assert_int_equal(got.axes[i].size, s.axes[i].size);
    }
    const weft_opcall call = {sizeof call, 1, &one, 1, 1, &x, &y, &y};
    assert_int_equal(builtin_op("merge")->grad(&self, &call, WEFT_GRAD_INPUTS, &d), WEFT_OK);
    assert_int_equal(b.shape(b.ctx, d, &got), WEFT_OK);
    assert_string_equal(got.axes[2].name, "dim");
    const weft_opcall other = {sizeof other, 3, two, 1, 1, &y, &z, &z};
    assert_int_equal(builtin_op("unmerge")->grad(&self, &other, WEFT_GRAD_INPUTS, &d), WEFT_OK);
    assert_int_equal(b.shape(b.ctx, d, &got), WEFT_OK);
    assert_string_equal(got.axes[1].name, "rows");
    graph_free(&g);
    /* along an axis before, outer, inner, after; outer and inner again where 4 does not divide 6 */
    const struct {
        uint32_t axis, size, out;
        bool ok;
    } cases[] = {
        {0, 3, 0, true}, {1, 2, 1, true}, {2, 2, 0, false}, {3, 5, 2, true}, {1, 4, 0, false}};
    weft_place p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_status st = place_of("merge", &one, 1, &s, cases[i].axis, cases[i].size, &p);
        assert_int_equal(st, cases[i].ok ? WEFT_OK : WEFT_UNSUPPORTED);
        if (cases[i].ok)
            assert_int_equal(p.axis, cases[i].out);
    }
    assert_int_equal(place_of("unmerge", two, 3, &flat, 1, 2, &p), WEFT_OK);
    assert_int_equal(p.axis, 1);
    assert_int_equal(place_of("unmerge", two, 3, &flat, 2, 5, &p), WEFT_OK);
    assert_int_equal(p.axis, 3);
    assert_int_equal(place_of("unmerge", two, 3, &flat, 1, 4, &p), WEFT_UNSUPPORTED);
    const weft_attr whole[] = {two[0], two[1], WEFT_ATTR_INT("size", 24)};
    assert_int_equal(place_of("unmerge", whole, 3, &flat, 1, 4, &p), WEFT_OK);
    assert_int_equal(p.axis, 2); /* of an outer axis of one element, the inner one */
}

TEST(merges_that_cannot_be)
{
    graph_mesh m = {0};
    graph g;
    graph_init(&g, &m, builtin_ops(), WEFT_F32, WEFT_F32);
    const weft_builder b = graph_builder(&g);
    const weft_shape s = {.dtype = WEFT_F32, .rank = 2, .axes = {{"a", 6}, {"b", 4}}};
    weft_shape full = {.dtype = WEFT_F32, .rank = WEFT_MAX_AXES};
    static const char *const names[WEFT_MAX_AXES] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (uint32_t i = 0; i < WEFT_MAX_AXES; i++)
        full.axes[i] = (weft_axis){names[i], 2};
    weft_tensor x = graph_add(&g, "x", WEFT_T_ACTIVATION, &s), y;
    weft_tensor all = graph_add(&g, "all", WEFT_T_ACTIVATION, &full);
    const weft_attr last = WEFT_ATTR_INT("n", 1), before = WEFT_ATTR_INT("n", -1),
                    taken = WEFT_ATTR_INT("a", 1);
    assert_int_equal(b.op(b.ctx, "merge", &last, 1, &x, 1, 0, &y, 1), WEFT_USAGE);
    assert_int_equal(b.op(b.ctx, "merge", &before, 1, &x, 1, 0, &y, 1), WEFT_USAGE);
    assert_int_equal(b.op(b.ctx, "merge", &taken, 1, &all, 1, 0, &y, 1), WEFT_USAGE);
    const weft_attr wrong[][3] = {
        {WEFT_ATTR_INT("p", 0), WEFT_ATTR_INT("q", 1), WEFT_ATTR_INT("size", 4)},
        {WEFT_ATTR_INT("p", 0), WEFT_ATTR_INT("q", 2), WEFT_ATTR_INT("size", 3)},
        {WEFT_ATTR_INT("p", 0), WEFT_ATTR_INT("b", 1), WEFT_ATTR_INT("size", 3)},
        {WEFT_ATTR_INT("p", 0), WEFT_ATTR_INT("p", 1), WEFT_ATTR_INT("size", 3)},
        {WEFT_ATTR_INT("p", 2), WEFT_ATTR_INT("q", 3), WEFT_ATTR_INT("size", 1)},
        {WEFT_ATTR_INT("p", 0), WEFT_ATTR_INT("q", 1), WEFT_ATTR_INT("size", 0)},
        {WEFT_ATTR_INT("p", 0), WEFT_ATTR_INT("q", 1), WEFT_ATTR_INT("sizes", 3)}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(b.op(b.ctx, "unmerge", wrong[i], 3, &x, 1, 0, &y, 1), WEFT_USAGE);
    const weft_attr fits[] = {WEFT_ATTR_INT("p", 0), WEFT_ATTR_INT("q", 1),
                              WEFT_ATTR_INT("size", 2)};
    assert_int_equal(b.op(b.ctx, "unmerge", fits, 3, &all, 1, 0, &y, 1), WEFT_USAGE);
    assert_int_equal(b.op(b.ctx, "unmerge", fits, 3, &x, 1, 0, &y, 1), WEFT_OK);
    graph_free(&g);
}
