/* Meshes, globs, and what the builder refuses. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"

/* Ranks count with the first axis fastest; every coordinate has its rank, and back. */
TEST(meshes)
{
    const graph_mesh m = {3, {"x", "y", "z"}, {2, 3, 4}};
    uint32_t rank = 0;
    assert_int_equal(graph_mesh_ranks(&m), 24);
    assert_int_equal(graph_mesh_axis(&m, "y"), 1);
    assert_int_equal(graph_mesh_axis(&m, "w"), -1);
    for (uint32_t z = 0; z < 4; z++)
        for (uint32_t y = 0; y < 3; y++)
            for (uint32_t x = 0; x < 2; x++, rank++) {
                const uint32_t at[3] = {x, y, z};
                for (uint32_t a = 0; a < 3; a++) {
                    assert_int_equal(graph_mesh_coord(&m, rank, a), at[a]);
                    assert_int_equal(graph_mesh_rank_at(&m, rank, a, at[a]), rank);
                    uint32_t other = graph_mesh_rank_at(&m, rank, a, m.size[a] - 1);
                    assert_int_equal(graph_mesh_coord(&m, other, a), m.size[a] - 1);
                    assert_int_equal(graph_mesh_rank_at(&m, other, a, at[a]), rank);
                }
            }
}

TEST(globs)
{
    static const struct {
        const char *glob, *name;
        bool matches;
    } cases[] = {
        {"*", "", true},
        {"*", "block.0.ln1.g", true},
        {"block.*.w", "block.0.attn.qkv.w", true},
        {"block.*.w", "block.0.attn.qkv.b", false},
        {"block.1.*", "block.11.ln1.g", false},
        {"tokens|targets", "targets", true},
        {"tokens|targets", "tokens|targets", false},
        {"tokens|", "", true},
        {"a*b*c", "aXbXbYc", true},
        {"a*b*c", "aXbXbY", false},
        {"", "", true},
        {"", "x", false},
        {"x", "xy", false},
        {"*|!embed.*", "head.w", true},
        {"*|!embed.*", "embed.tok.w", false},
        {"!embed.*|*", "embed.tok.w", false},
        {"!embed.*", "head.w", true},
        {"!embed.*|!head.*", "head.w", false},
        {"!embed.*|!head.*", "block.0.ln1.g", true},
        {"embed.*|!embed.pos.w|head.*", "embed.pos.w", false},
        {"embed.*|!embed.pos.w|head.*", "head.w", true},
        {"embed.*|!embed.pos.w|head.*", "block.0.ln1.g", false},
        {"!*", "x", false},
        {"!", "x", true},
        {"!", "", false},
        {"*|!!x", "x", true},
        {"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (graph_glob_match(cases[i].glob, cases[i].name) != cases[i].matches)
            fail_msg("'%s' and '%s'", cases[i].glob, cases[i].name);
}

static void said(weft_status got, const char *sentence)
{
    assert_int_equal(got, strstr(sentence, "unknown element type") ? WEFT_UNSUPPORTED : WEFT_USAGE);
    if (!strstr(err_text(), sentence))
        fail_msg("'%s' does not say '%s'", err_text(), sentence);
}

TEST(the_builder_refuses)
{
    static const graph_mesh alone = {0};
    graph g;
    graph_init(&g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    weft_tensor t, out[2];
    weft_shape vector = {.rank = 1, .axes = {{"n", 3}}};
    weft_shape empty = {.rank = 1, .axes = {{"n", 0}}};
    weft_shape huge = {.rank = 2, .axes = {{"n", INT64_MAX}, {"m", 3}}};
    weft_shape twice = {.rank = 2, .axes = {{"n", 3}, {"n", 3}}};
    weft_shape odd = {.dtype = 99};
    char name[WEFT_MAX_NAME + 1];
    memset(name, 'n', WEFT_MAX_NAME);
    name[WEFT_MAX_NAME] = 0;
    assert_int_equal(
        b.param(b.ctx, &(weft_param_args){sizeof(weft_param_args), 0, "p", &vector, "zeros", NULL},
                &t),
        WEFT_OK);
    said(b.param(b.ctx, &(weft_param_args){sizeof(weft_param_args), 0, "p", &vector, "zeros", NULL},
                 &t),
         "already has a tensor named p");
    said(b.param(b.ctx,
                 &(weft_param_args){sizeof(weft_param_args), 0, name, &vector, "zeros", NULL}, &t),
         "is longer than 63 bytes");
    said(b.input(b.ctx, &(weft_input_args){sizeof(weft_input_args), 0, "e", &empty}, &t),
         "axis 0 of e, 'n', is empty or too large");
    said(b.input(b.ctx, &(weft_input_args){sizeof(weft_input_args), 0, "h", &huge}, &t),
         "too large");
    said(b.input(b.ctx, &(weft_input_args){sizeof(weft_input_args), 0, "w", &twice}, &t),
         "has the axis 'n' twice");
    said(b.input(b.ctx, &(weft_input_args){sizeof(weft_input_args), 0, "o", &odd}, &t),
         "unknown element type 99");
    said(b.scalar(b.ctx, "p", 0, &t), "is a tensor, not a scalar");
    said(b.state(b.ctx, &(weft_state_args){sizeof(weft_state_args), .name = "m", .like = t}, &t),
         "builder.state() is called in a model");
    said(b.op(b.ctx, "no.such.op", NULL, 0, &t, 1, 0, out, 1), "no.such.op");
    weft_tensor none = 77;
    said(b.op(b.ctx, "neg", NULL, 0, &none, 1, 0, out, 1), "77");
    said(b.shape(b.ctx, 77, &vector), "no tensor number 77");
    assert_int_equal(g.nodes.n, 0);
    graph_free(&g);
}
