/* Do inputs have to be what the data fills, and do globs find tensors by their role? */
#include <string.h>

#include "base/err.h"
#include "graph/inputs.h"

#include <test.h>

#include "builtin.h"

static const graph_mesh two = {1, {"dp"}, {2}};
static const weft_field fields[] = {
    {.name = "pixels", .dtype = WEFT_F32, .rank = 2, .axes = {{"row", 4}, {"column", 5}}},
    {.name = "mask", .dtype = WEFT_U8, .rank = 1, .axes = {{"row", 4}}},
    {.name = "targets", .dtype = WEFT_I32},
};

static void begin(graph *g)
{
    graph_init(g, &two, builtin_ops(), WEFT_BF16, WEFT_F32);
    g->fields = fields;
    g->nfields = 3;
    g->rows = 6;
}

static weft_status input(graph *g, const char *name, const weft_shape *s, weft_tensor *out)
{
    const weft_builder b = graph_builder(g);
    return b.input(b.ctx, &(weft_input_args){sizeof(weft_input_args), 0, name, s}, out);
}

static void refused(weft_status st, const char *says)
{
    assert_int_not_equal(st, WEFT_OK);
    if (!strstr(err_text(), says))
        fail_msg("expected '%s' in: %s", says, err_text());
}

TEST(dense_inputs)
{
    graph g;
    weft_tensor t;
    weft_shape s = {.rank = 3, .axes = {{"tokens", 6}, {"row", 4}, {"column", 5}}};
    begin(&g);
    weft_builder b = graph_builder(&g);
    refused(input(&g, "pixels", &s, &t), "builder.input() comes before builder.block()");
    assert_int_equal(b.block(b.ctx, "all", 0), WEFT_OK);
    assert_int_equal(input(&g, "pixels", &s, &t), WEFT_OK);
    assert_int_equal(graph_tensor_at(&g, t)->shape.dtype, WEFT_BF16); /* the core rounds */
    assert_int_equal(graph_first_input(&g), t);
    graph_free(&g);
    begin(&g);
    assert_int_equal(b.block(b.ctx, "all", 0), WEFT_OK);
    s.dtype = WEFT_F32;
    assert_int_equal(input(&g, "pixels", &s, &t), WEFT_OK);
    assert_int_equal(graph_tensor_at(&g, t)->shape.dtype, WEFT_F32);
    s = (weft_shape){.dtype = WEFT_U8, .rank = 2, .axes = {{"tokens", 6}, {"row", 4}}};
    assert_int_equal(input(&g, "mask", &s, &t), WEFT_OK);
    s = (weft_shape){.dtype = WEFT_I64};
    assert_int_equal(input(&g, "first_token", &s, &t), WEFT_OK);
    s = (weft_shape){.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", 6}}};
    assert_int_equal(input(&g, "positions", &s, &t), WEFT_OK);
    graph_free(&g);
}

TEST(other_inputs_are_refused)
{
    static const char pixels[] = "'pixels' must be WEFT_F32 or 0 [tokens 6, row 4, column 5]";
    static const struct {
        const char *name, *says;
        weft_shape shape;
    } wrong[] = {
        {"tokens",
         "nothing fills an input 'tokens'; there are pixels, mask, targets, positions",
         {.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", 6}}}},
        {"pixels", pixels, {.rank = 1, .axes = {{"tokens", 6}}}},
        {"pixels", pixels, {.rank = 3, .axes = {{"tokens", 6}, {"row", 4}, {"column", 6}}}},
        {"pixels", pixels, {.rank = 3, .axes = {{"tokens", 6}, {"row", 4}, {"col", 5}}}},
        {"pixels", pixels, {.rank = 3, .axes = {{"tokens", 7}, {"row", 4}, {"column", 5}}}},
        {"pixels", pixels, {.rank = 3, .axes = {{"rows", 6}, {"row", 4}, {"column", 5}}}},
        {"pixels",
         pixels,
         {.dtype = WEFT_BF16, .rank = 3, .axes = {{"tokens", 6}, {"row", 4}, {"column", 5}}}},
        {"mask",
         "'mask' must be WEFT_U8 [tokens 6, row 4]",
         {.rank = 2, .axes = {{"tokens", 6}, {"row", 4}}}},
        {"targets",
         "'targets' must be WEFT_I32 [tokens 6]",
         {.dtype = WEFT_U8, .rank = 1, .axes = {{"tokens", 6}}}},
        {"positions",
         "'positions' must be WEFT_I32 [tokens 6]",
         {.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", 3}}}},
        {"first_token", "'first_token' must be WEFT_I64 []", {.dtype = WEFT_I32}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        graph g;
        weft_tensor t;
        begin(&g);
        weft_builder b = graph_builder(&g);
        assert_int_equal(b.block(b.ctx, "all", 0), WEFT_OK);
        refused(input(&g, wrong[i].name, &wrong[i].shape, &t), wrong[i].says);
        assert_int_equal(g.tensors.n, 0);
        graph_free(&g);
    }
}

/* Without fields, as `weft plan` has none without data, what the model declares is accepted. */
TEST(unknown_fields)
{
    graph g;
    weft_tensor t;
    weft_shape s = {.rank = 2, .axes = {{"tokens", 6}, {"any", 9}}};
    begin(&g);
    g.fields = NULL;
    g.nfields = 0;
    weft_builder b = graph_builder(&g);
    assert_int_equal(b.block(b.ctx, "all", 0), WEFT_OK);
    assert_int_equal(input(&g, "anything", &s, &t), WEFT_OK);
    s.axes[0].size = 5;
    refused(input(&g, "other", &s, &t), "'other' must have the first axis [tokens 6]");
    s.rank = 0;
    refused(input(&g, "other", &s, &t), "'other' must have the first axis [tokens 6]");
    graph_free(&g);
}

TEST(fields_are_checked)
{
    char long_name[WEFT_MAX_NAME + 1] = "";
    memset(long_name, 'n', WEFT_MAX_NAME);
    const struct {
        const char *says;
        weft_field f;
    } wrong[] = {
        {"whose name is not made of", {.name = NULL, .dtype = WEFT_I32}},
        {"whose name is not made of", {.name = "", .dtype = WEFT_I32}},
        {"whose name is not made of", {.name = "a b", .dtype = WEFT_I32}},
        {"whose name is not made of", {.name = long_name, .dtype = WEFT_I32}},
        {"'positions', which is the name of", {.name = "positions", .dtype = WEFT_I32}},
        {"'first_token', which is the name of", {.name = "first_token", .dtype = WEFT_I32}},
        {"has the element type 77", {.name = "x", .dtype = 77}},
        {"has the element type 0", {.name = "x"}},
        {"has 0 axes, flags 0x1", {.name = "x", .dtype = WEFT_U8, .flags = 1}},
        {"and reserved 0x2", {.name = "x", .dtype = WEFT_U8, .reserved = 2}},
        {"has 8 axes", {.name = "x", .dtype = WEFT_U8, .rank = WEFT_MAX_AXES}},
        {"the name of axis 1 of x is NULL", {.name = "x", .dtype = WEFT_U8, .rank = 1}},
        {"is empty or too large", {.name = "x", .dtype = WEFT_U8, .rank = 1, .axes = {{"a", 0}}}},
        {"is empty or too large",
         {.name = "x", .dtype = WEFT_U8, .rank = 2, .axes = {{"a", INT64_MAX}, {"b", 4}}}},
        {"has 4294967296 elements or more",
         {.name = "x", .dtype = WEFT_U8, .rank = 2, .axes = {{"a", 1 << 16}, {"b", 1 << 16}}}},
        {"has the axis 'tokens' twice",
         {.name = "x", .dtype = WEFT_U8, .rank = 1, .axes = {{"tokens", 3}}}},
        {"the data has two fields 'targets'", {.name = "targets", .dtype = WEFT_I32}},
    };
    assert_int_equal(graph_check_fields(fields, 3), WEFT_OK);
    assert_int_equal(graph_check_fields(NULL, 0), WEFT_OK);
    refused(graph_check_fields(NULL, 1), "the data has 1 fields");
    refused(graph_check_fields(fields, GRAPH_MAX_FIELDS + 1), "at most 32 are possible");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const weft_field list[] = {fields[2], wrong[i].f};
        refused(graph_check_fields(list, 2), wrong[i].says);
    }
}

static weft_tensor param(const weft_builder *b, const char *name, const char *role)
{
    const weft_shape s = {.rank = 1, .axes = {{"tokens", 6}}};
    weft_tensor t = 0;
    assert_int_equal(
        b->param(b->ctx, &(weft_param_args){sizeof(weft_param_args), 0, name, &s, "zeros", role},
                 &t),
        WEFT_OK);
    return t;
}

/* Which of these a glob splits: p for ffn.up, q for ffn.down, n for no role, i and t for inputs, 1
 * for the scalar input. */
static const char *found(const char *glob, char out[8])
{
    graph g;
    weft_tensor t[6];
    const weft_shape dense = {.rank = 3, .axes = {{"tokens", 6}, {"row", 4}, {"column", 5}}},
                     ids = {.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", 6}}},
                     one = {.dtype = WEFT_I64};
    begin(&g);
    const weft_builder b = graph_builder(&g);
    assert_int_equal(b.block(b.ctx, "all", 0), WEFT_OK);
    t[0] = param(&b, "p", "ffn.up");
    t[1] = param(&b, "q", "ffn.down");
    t[2] = param(&b, "input", NULL);
    assert_int_equal(input(&g, "pixels", &dense, &t[3]), WEFT_OK);
    assert_int_equal(input(&g, "targets", &ids, &t[4]), WEFT_OK);
    assert_int_equal(input(&g, "first_token", &one, &t[5]), WEFT_OK);
    const weft_status st = graph_split(&g, glob, "tokens", 0);
    for (uint32_t i = 0, n = 0; i < 6; i++) {
        if (graph_tensor_at(&g, t[i])->place[0].kind == WEFT_SPLIT)
            out[n++] = "pqnit1"[i];
        out[n] = 0;
    }
    graph_free(&g);
    return st == WEFT_OK ? out : "refused";
}

TEST(roles_in_globs)
{
    char out[8];
    assert_string_equal(found("@input", out), "it");
    assert_string_equal(found("pixels|targets", out), "it");
    assert_string_equal(found("@ffn.up", out), "p");
    assert_string_equal(found("@ffn.*", out), "pq");
    assert_string_equal(found("@ffn.down|targets|input", out), "qnt");
    assert_string_equal(found("@*", out), "pqit");
    assert_string_equal(found("@*|!@input", out), "pq");
    assert_string_equal(found("@*|!@ffn.*|!targets", out), "i");
    assert_string_equal(found("!@ffn.up|!first_token", out), "qnit");
    assert_string_equal(found("@ffn.*|!@ffn.*", out), "refused");
    assert_string_equal(found("@", out), "refused");
    assert_string_equal(found("@head", out), "refused");
    assert_non_null(strstr(err_text(), "no tensor is named '@head'"));
    assert_string_equal(found("first_token", out), "refused");
    assert_non_null(strstr(err_text(), "has no axis 'tokens'"));
    assert_false(graph_glob_match("@input", "@input"));
}
