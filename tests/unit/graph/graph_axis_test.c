/* Ops along an axis, and conversions of type: shapes, refusals, equal maxima, and the placements
 * that graph_shard_test.c does not draw. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "graph_eval.h"

static const graph_mesh alone = {0}, two = {.n = 1, .name = {"m"}, .size = {2}};

static const weft_shape matrix = {.dtype = WEFT_F32, .rank = 2, .axes = {{"rows", 4}, {"cols", 6}}};
static const weft_shape rows = {.dtype = WEFT_BF16, .rank = 1, .axes = {{"rows", 4}}};
static const weft_shape others = {.dtype = WEFT_F32, .rank = 1, .axes = {{"rows", 5}}};
static const weft_shape named = {.dtype = WEFT_F32, .rank = 1, .axes = {{"lines", 4}}};
static const weft_shape numbers = {.dtype = WEFT_I32, .rank = 1, .axes = {{"rows", 4}}};
static const weft_shape full = {
    .dtype = WEFT_F32,
    .rank = WEFT_MAX_AXES,
    .axes = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 3}}};

#define ATTR(key, number) WEFT_ATTR_INT(key, number)

typedef struct infer_case {
    const char *id;
    const weft_shape *in[2];
    weft_attr attr[2];
    const char *says; /* the shape, or a part of the refusal */
} infer_case;

static const infer_case cases[] = {
    {"sum_axis", {&matrix}, {ATTR("cols", 1)}, "f32 rows 4"},
    {"sum_axis", {&matrix}, {ATTR("rows", 0)}, "f32 cols 6"},
    {"max_axis", {&rows}, {ATTR("rows", 0)}, "bf16"},
    {"sum_axis", {&matrix}, {ATTR("cols", 0)}, "axis 0 of f32 [rows 4, cols 6] is not 'cols'"},
    {"sum_axis", {&matrix}, {ATTR("cols", 2)}, "axis 2 of f32 [rows 4, cols 6] is not 'cols'"},
    {"sum_axis", {&matrix}, {ATTR("cols", -1)}, "axis -1 of"},
    {"sum_axis", {&matrix}, {{0}}, "it takes one tensor and the attribute that names"},
    {"sum_axis", {&matrix}, {ATTR("cols", 1), ATTR("rows", 0)}, "takes one tensor"},
    {"sum_axis", {&matrix, &rows}, {ATTR("cols", 1)}, "takes one tensor"},
    {"max_axis", {&numbers}, {ATTR("rows", 0)}, "works on floating point, not on i32 [rows 4]"},
    {"broadcast", {&rows, &matrix}, {ATTR("cols", 1)}, "bf16 rows 4 cols 6"},
    {"broadcast", {&numbers, &matrix}, {ATTR("cols", 1)}, "i32 rows 4 cols 6"},
    {"broadcast", {&rows, &matrix}, {ATTR("rows", 0)}, "does not have the axes of f32 [rows 4, c"},
    {"broadcast", {&others, &matrix}, {ATTR("cols", 1)}, "f32 [rows 5] does not have the axes"},
    {"broadcast", {&named, &matrix}, {ATTR("cols", 1)}, "f32 [lines 4] does not have the axes"},
    {"broadcast", {&rows}, {ATTR("cols", 1)}, "it takes two tensors"},
    {"repeat", {&rows}, {ATTR("cols", 0), ATTR("size", 3)}, "bf16 cols 3 rows 4"},
    {"repeat", {&rows}, {ATTR("size", 3), ATTR("cols", 1)}, "bf16 rows 4 cols 3"},
    {"repeat", {&rows}, {ATTR("cols", 1)}, "and the attribute 'size'"},
    {"repeat", {&rows}, {ATTR("cols", 1), ATTR("size", 0)}, "and the attribute 'size'"},
    {"repeat", {&rows}, {ATTR("cols", 2), ATTR("size", 3)}, "cannot get the axis 'cols' as number"},
    {"repeat", {&rows}, {ATTR("rows", 1), ATTR("size", 3)}, "cannot get the axis 'rows'"},
    {"repeat", {&rows}, {ATTR("cols", 1), ATTR("size", INT64_MAX)}, "too many axes or elements"},
    {"repeat", {&full}, {ATTR("cols", 1), ATTR("size", 2)}, "too many axes or elements"},
    {"cast", {&matrix}, {ATTR("dtype", WEFT_U8)}, "u8 rows 4 cols 6"},
    {"cast", {&numbers}, {ATTR("dtype", WEFT_F16)}, "f16 rows 4"},
    {"cast", {&matrix}, {ATTR("dtype", WEFT_I64)}, "needs the attribute 'dtype'"},
    {"cast", {&matrix}, {{0}}, "needs the attribute 'dtype'"},
    {"cast", {&matrix}, {ATTR("dtype", 1ll << 40 | WEFT_F32)}, "needs the attribute 'dtype'"},
    {"cast", {&matrix, &matrix}, {ATTR("dtype", WEFT_U8)}, "it takes one tensor, not 2"},
};

static void print(const weft_shape *s, char *out, size_t cap)
{
    static const char *const words[] = {"?", "f32", "bf16", "f16", "i32", "i64", "f64", "u8"};
    size_t used = (size_t)snprintf(out, cap, "%s", words[s->dtype]);
    for (uint32_t i = 0; i < s->rank; i++)
        used += (size_t)snprintf(out + used, cap - used, " %s %lld", s->axes[i].name,
                                 (long long)s->axes[i].size);
}

TEST(shapes)
{
    graph g;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const infer_case *c = &cases[i];
        weft_shape in[2] = {*c->in[0]}, out[1];
        uint32_t nin = c->in[1] ? 2 : 1,
                 nattr = !c->attr[0].key  ? 0
                         : c->attr[1].key ? 2
                                          : 1,
                 n = 1;
        char got[256];
        in[1] = nin > 1 ? *c->in[1] : in[1];
        if (builtin_op(c->id)->infer(&self, c->attr, nattr, in, nin, out, &n) == WEFT_OK)
            print(&out[0], got, sizeof got);
        else
            snprintf(got, sizeof got, "%s", err_text());
        if (!strstr(got, c->says))
            fail_msg("%s, case %zu: '%s', which should have '%s'", c->id, i, got, c->says);
    }
    graph_free(&g);
}

/* The gradient of a maximum that several elements have goes to all of them in equal parts, and is
 * of the type of the tensor; the number of them is exact. */
TEST(equal_maxima)
{
    for (uint32_t dtype = WEFT_F32; dtype <= WEFT_F16; dtype++) {
        graph g;
        graph_init(&g, &alone, builtin_ops(), dtype, WEFT_F32);
        weft_builder b = graph_builder(&g);
        weft_shape s = matrix;
        s.dtype = 0;
        weft_tensor x, y[2], loss, grad;
        const weft_attr along[] = {ATTR("cols", 1), ATTR("rows", 0)};
        assert_int_equal(
            b.param(b.ctx, &(weft_param_args){sizeof(weft_param_args), 0, "x", &s, "ones", NULL},
                    &x),
            WEFT_OK);
        assert_int_equal(b.op(b.ctx, "max_axis", &along[0], 1, &x, 1, 0, &y[0], 1), WEFT_OK);
        assert_int_equal(b.op(b.ctx, "sum_axis", &along[1], 1, &y[0], 1, 0, &loss, 1), WEFT_OK);
        assert_int_equal(graph_backward(&g, loss), WEFT_OK);
        grad = graph_tensor_at(&g, x)->grad;
        for (uint32_t i = 0; i < g.nodes.n; i++)
            if (g.nodes.at[i].phase == PHASE_PARAMS && !strcmp(g.nodes.at[i].id, "sum_axis"))
                assert_int_equal(graph_tensor_at(&g, g.nodes.at[i].in[0])->shape.dtype, WEFT_F32);
        evaluation e = eval_begin(&g);
        for (int i = 0; i < 24; i++) /* row r has its maximum r + 1 times */
            e.value[x][i] = i % 6 <= i / 6 ? 2 : -i;
        eval_nodes(&e, 0, g.nodes.n);
        for (int i = 0; i < 24; i++)
            assert_true(e.value[grad][i] == (i % 6 <= i / 6 ? 1.0 / (i / 6 + 1) : 0));
        eval_end(&e);
        graph_free(&g);
    }
}

/* Placement of the output of a call of `id` along the axis `along`; its status. */
static weft_status ask(const char *id, weft_attr along, const weft_shape *x, const weft_shape *like,
                       weft_place px, weft_place plike, weft_place *out)
{
    graph g;
    graph_init(&g, &two, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    weft_tensor in[2] = {graph_add(&g, "x", WEFT_T_ACTIVATION, x)}, y;
    in[1] = like ? graph_add(&g, "like", WEFT_T_ACTIVATION, like) : 0;
    const uint32_t nin = like ? 2 : 1;
    assert_int_equal(b.op(b.ctx, id, &along, 1, in, nin, 0, &y, 1), WEFT_OK);
    const weft_opcall call = {sizeof call, 1, &along, nin, 1, in, &y, NULL};
    const weft_op_self self = {.struct_size = sizeof self, .b = &b};
    const weft_place place[2] = {px, plike};
    *out = (weft_place){0};
    weft_status st = builtin_op(id)->shard(&self, &call, "m", 2, place, out);
    graph_free(&g);
    return st;
}

TEST(partial_results)
{
    const weft_place whole = {0}, sum = {.kind = WEFT_PARTIAL_SUM},
                     max = {.kind = WEFT_PARTIAL_MAX};
    const weft_place first = {.kind = WEFT_SPLIT}, second = {WEFT_SPLIT, 1, 0, 0},
                     held = {WEFT_HELD, 1, 0, 0};
    const weft_attr cols = ATTR("cols", 1);
    weft_place out;
    assert_int_equal(ask("max_axis", cols, &matrix, NULL, max, whole, &out), WEFT_OK);
    assert_int_equal(out.kind, WEFT_PARTIAL_MAX); /* the maximum of maxima */
    assert_int_equal(ask("max_axis", cols, &matrix, NULL, second, whole, &out), WEFT_OK);
    assert_int_equal(out.kind, WEFT_PARTIAL_MAX);
    assert_int_equal(ask("max_axis", cols, &matrix, NULL, sum, whole, &out), WEFT_UNSUPPORTED);
    assert_int_equal(ask("sum_axis", cols, &matrix, NULL, max, whole, &out), WEFT_UNSUPPORTED);
    assert_int_equal(ask("sum_axis", cols, &matrix, NULL, held, whole, &out), WEFT_OK);
    assert_true(out.kind == WEFT_HELD && out.axis == 1);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, max, whole, &out), WEFT_OK);
    assert_int_equal(out.kind, WEFT_PARTIAL_MAX);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, max, second, &out), WEFT_UNSUPPORTED);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, sum, second, &out), WEFT_UNSUPPORTED);
    /* of a partial or absent `like` the shape is known */
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, first, sum, &out), WEFT_UNSUPPORTED);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, whole, sum, &out), WEFT_OK);
    assert_int_equal(out.kind, WEFT_WHOLE);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, whole, held, &out), WEFT_OK);
    assert_int_equal(out.kind, WEFT_WHOLE);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, whole, first, &out), WEFT_UNSUPPORTED);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, first, second, &out), WEFT_UNSUPPORTED);
    assert_int_equal(ask("broadcast", cols, &rows, &matrix, first, first, &out), WEFT_OK);
    assert_true(out.kind == WEFT_SPLIT && out.axis == 0);
}

static uint32_t count_comm(const graph *g, uint32_t redop, uint32_t axes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        n += g->nodes.at[i].comm == WEFT_ALL_REDUCE && g->nodes.at[i].redop == redop &&
             graph_tensor_at(g, g->nodes.at[i].in[0])->shape.rank == axes;
    return n;
}

/* x is split along its columns: the maximum of a row and the number of its maxima are completed
 * over the mesh axis, and nothing else is sent. */
TEST(split_maximum)
{
    graph g;
    graph_init(&g, &two, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    weft_tensor x, y, loss;
    const weft_attr along[] = {ATTR("cols", 1), ATTR("rows", 0)};
    assert_int_equal(
        b.param(b.ctx, &(weft_param_args){sizeof(weft_param_args), 0, "x", &matrix, "ones", NULL},
                &x),
        WEFT_OK);
    assert_int_equal(b.op(b.ctx, "max_axis", &along[0], 1, &x, 1, 0, &y, 1), WEFT_OK);
    assert_int_equal(b.op(b.ctx, "sum_axis", &along[1], 1, &y, 1, 0, &loss, 1), WEFT_OK);
    assert_int_equal(graph_split(&g, "x", "cols", 0), WEFT_OK);
    assert_int_equal(graph_propagate(&g, 0), WEFT_OK);
    assert_int_equal(count_comm(&g, WEFT_MAX, 1), 1);
    const uint32_t first = g.nodes.n;
    assert_int_equal(graph_backward(&g, loss), WEFT_OK);
    if (graph_propagate(&g, first) != WEFT_OK)
        fail_msg("%s", err_text());
    assert_int_equal(count_comm(&g, WEFT_MAX, 1), 1);
    assert_int_equal(count_comm(&g, WEFT_SUM, 1), 1);
    uint32_t all = 0;
    for (uint32_t i = 0; i < g.nodes.n; i++)
        all += g.nodes.at[i].comm != 0;
    assert_int_equal(all, 2);
    assert_int_equal(graph_tensor_at(&g, graph_tensor_at(&g, x)->grad)->place[0].kind, WEFT_SPLIT);
    graph_free(&g);
}
