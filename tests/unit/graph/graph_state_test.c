/* builder.state(): which arguments are refused, and in which words; the shape, the type and the
 * axes that follow the parameter of what it makes. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"

static const graph_mesh alone = {0};
static graph g;
static weft_builder b;
static weft_tensor table, other; /* [vocab 5, embed 6], [ffn 4] */

#define STATE(...)                                                                                 \
    (weft_state_args)                                                                              \
    {                                                                                              \
        sizeof(weft_state_args), .name = "m", .like = table, __VA_ARGS__                           \
    }

#define PARAM(title, of)                                                                           \
    &(weft_param_args)                                                                             \
    {                                                                                              \
        sizeof(weft_param_args), .name = title, .shape = of, .init = "ones"                        \
    }

/* In the rule that updates `table` ("table"), or in a list (""). */
static void begin(const char *where)
{
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    b = graph_builder(&g);
    weft_shape two = {.rank = 2, .axes = {{"vocab", 5}, {"embed", 6}}};
    weft_shape one = {.rank = 1, .axes = {{"ffn", 4}}};
    assert_int_equal(b.param(b.ctx, PARAM("table", &two), &table), WEFT_OK);
    assert_int_equal(b.param(b.ctx, PARAM("other", &one), &other), WEFT_OK);
    g.now.state_of = where;
}

static void refused(const weft_state_args *x, weft_status status, const char *text)
{
    weft_tensor t = 0;
    const uint32_t tensors = g.tensors.n;
    weft_status st = b.state(b.ctx, x, &t);
    if (st != status || !strstr(err_text(), text))
        fail_msg("status %d, '%s' where '%s' was expected", (int)st, err_text(), text);
    assert_int_equal(g.tensors.n, tensors);
    err_clear();
}

TEST(bad_structs)
{
    begin("table");
    struct {
        weft_state_args known;
        uint64_t more;
    } grown = {STATE(.dtype = 0), 1};
    grown.known.struct_size = sizeof grown;
    refused(NULL, WEFT_USAGE, "builder.state(): args is NULL");
    refused(&grown.known, WEFT_UNSUPPORTED, "fields behind the 56 bytes that this version");
    weft_state_args x = STATE(.flags = 1);
    refused(&x, WEFT_UNSUPPORTED, "the flags 0x1 are not known");
    x = STATE(.reserved = 2);
    refused(&x, WEFT_UNSUPPORTED, "the flags 0x2 are not known");
    x = STATE(.dtype = 0);
    x.struct_size = 4;
    refused(&x, WEFT_USAGE, "struct_size of the arguments is 4");
    x.struct_size = 8;
    refused(&x, WEFT_USAGE, "builder.state(): name is NULL");
    graph_free(&g);
}

TEST(bad_members)
{
    begin("table");
    const weft_shape odd = {.rank = 1, .axes = {{"vocab", 3}}}, many = {.rank = WEFT_MAX_AXES + 1},
                     cells = {.rank = 1, .axes = {{"cells", 5}}};
    static const char *const inits[] = {"one", "constant:", "constant:1x", "constant:1e99",
                                        "normal:1"};
    refused(&STATE(.dtype = WEFT_F64), WEFT_UNSUPPORTED, "a state is fp32, bf16 or fp16");
    refused(&STATE(.dtype = 99), WEFT_USAGE, "unknown element type 99");
    refused(&STATE(.keep = "", .shape = &cells), WEFT_USAGE, "keep and shape; give one of them");
    refused(&STATE(.keep = "ffn"), WEFT_USAGE, "names the axis 'ffn', which table has not");
    refused(&STATE(.keep = "vocab,"), WEFT_USAGE, "names the axis '', which table has not");
    refused(&STATE(.keep = "voc"), WEFT_USAGE, "names the axis 'voc', which table has not");
    refused(&STATE(.shape = &odd), WEFT_USAGE, "an axis of another size needs another name");
    refused(&STATE(.shape = &many), WEFT_USAGE, "axes; at most");
    refused(&STATE(.init = "copy", .dtype = WEFT_I32), WEFT_USAGE, "a copy of its parameter");
    refused(&STATE(.init = "copy", .keep = ""), WEFT_USAGE, "has all of its axes");
    refused(&STATE(.init = "eye"), WEFT_USAGE, "'m' starts as eye, but is no square matrix");
    for (uint32_t i = 0; i < 5; i++)
        refused(&STATE(.init = inits[i]), WEFT_USAGE,
                "must be zeros, ones, copy, eye or constant:X");
    weft_state_args x = STATE(.dtype = 0);
    x.like = other;
    refused(&x, WEFT_USAGE, "is not the parameter that is updated");
    g.now.by_element = true;
    refused(&STATE(.keep = "vocab"), WEFT_UNSUPPORTED, "the rule's unit is WEFT_UNIT_ELEMENT");
    refused(&STATE(.shape = &cells), WEFT_UNSUPPORTED, "the rule's unit is WEFT_UNIT_ELEMENT");
    refused(&STATE(.dtype = WEFT_U8), WEFT_UNSUPPORTED, "a state is fp32, bf16 or fp16");
    graph_free(&g);
    begin("");
    refused(&STATE(.keep = "vocab"), WEFT_UNSUPPORTED, "list has those of its parameter");
    refused(&STATE(.dtype = WEFT_I32), WEFT_UNSUPPORTED, "a state is fp32, bf16 or fp16");
    graph_free(&g);
}

static const graph_tensor *made(weft_state_args x, const char *name)
{
    weft_tensor t = 0;
    x.name = name;
    if (b.state(b.ctx, &x, &t) != WEFT_OK)
        fail_msg("%s: %s", name, err_text());
    assert_int_equal(graph_tensor_at(&g, t)->of, x.like);
    return graph_tensor_at(&g, t);
}

TEST(shapes)
{
    begin("table");
    const weft_shape square = {.rank = 2, .axes = {{"embed", 6}, {"embed'", 6}}};
    const graph_tensor *t = made(STATE(.dtype = WEFT_BF16), "whole");
    assert_true(t->full && t->shape.rank == 2 && t->shape.dtype == WEFT_BF16 && !t->init);
    assert_true(t->follows[0] == 1 && t->follows[1] == 2);
    t = made(STATE(.keep = "embed", .init = "constant:0.5"), "columns");
    assert_true(!t->full && t->shape.rank == 1 && t->shape.axes[0].size == 6);
    assert_true(t->shape.dtype == WEFT_F32 && t->follows[0] == 2);
    assert_string_equal(t->init, "constant:0.5");
    t = made(STATE(.keep = ""), "number");
    assert_true(!t->full && t->shape.rank == 0);
    t = made(STATE(.keep = "embed,vocab"), "both");
    assert_true(t->full && t->shape.axes[0].size == 5);
    t = made(STATE(.shape = &square, .init = "eye"), "square");
    assert_true(!t->full && t->shape.rank == 2 && t->follows[0] == 2 && !t->follows[1]);
    weft_state_args shorter = STATE(.keep = "vocab");
    shorter.struct_size = WEFT_END_OF(weft_state_args, dtype); /* keep is not there */
    assert_true(made(shorter, "shorter")->full);
    graph_free(&g);
}
