/* cached_test.c: which graphs may continue a sequence, and what becomes of one that may. */
#include "graph/cached.h"

#include <string.h>

#include <test.h>

#include "base/err.h"
#include "builtin.h"

enum { ROWS = 8, LIMIT = 20 };

typedef struct built {
    graph g;
    graph_mesh mesh;
    weft_builder b;
    weft_tensor x; /* the newest activation [tokens, embed] */
} built;

static weft_tensor op(built *m, const char *id, const weft_attr *attrs, uint32_t nattr,
                      const weft_tensor *in, uint32_t nin, uint32_t nout)
{
    weft_tensor out[2] = {0};
    assert_int_equal(m->b.op(m->b.ctx, id, attrs, nattr, in, nin, 0, out, nout), WEFT_OK);
    return out[0];
}

static weft_tensor param(built *m, const char *name, const weft_shape *shape)
{
    weft_tensor t;
    const weft_param_args args = {
        .struct_size = sizeof args, .name = name, .shape = shape, .init = "zeros"};
    assert_int_equal(m->b.param(m->b.ctx, &args, &t), WEFT_OK);
    return t;
}

static void begin(built *m)
{
    const weft_shape ids = {.dtype = WEFT_I32, .rank = 1, .axes = {{"tokens", ROWS}}};
    const weft_shape table = {.rank = 2, .axes = {{"vocab", 11}, {"embed", 6}}};
    const weft_input_args args = {.struct_size = sizeof args, .name = "tokens", .shape = &ids};
    weft_tensor tokens;
    *m = (built){.mesh = {.n = 0}};
    graph_init(&m->g, &m->mesh, builtin_ops(), WEFT_F32, WEFT_F32);
    m->g.rows = ROWS;
    m->b = graph_builder(&m->g);
    assert_int_equal(m->b.block(m->b.ctx, "only", 0), WEFT_OK);
    assert_int_equal(m->b.input(m->b.ctx, &args, &tokens), WEFT_OK);
    m->x = op(m, "embedding", NULL, 0, (weft_tensor[]){param(m, "table", &table), tokens}, 2, 1);
}

/* Queries, keys and values of two heads of 4 from x, and back to [tokens, embed]. */
static void attend(built *m, int64_t sequence, int64_t causal, bool turns)
{
    const weft_attr attrs[] = {WEFT_ATTR_INT("sequence", sequence),
                               WEFT_ATTR_INT("causal", causal)};
    const weft_shape w = {.rank = 3, .axes = {{"heads", 2}, {"head_dim", 4}, {"embed", 6}}};
    const weft_shape back = {.rank = 3, .axes = {{"embed", 6}, {"heads", 2}, {"head_dim", 4}}};
    weft_tensor qkv[3];
    for (int i = 0; i < 3; i++) {
        const char *names[] = {"q", "k", "v"};
        qkv[i] = op(m, "linear", NULL, 0, (weft_tensor[]){m->x, param(m, names[i], &w)}, 2, 1);
        if (i < 2 && turns)
            qkv[i] = op(m, "rope", attrs, 1, &qkv[i], 1, 1);
    }
    const weft_tensor y = op(m, "attention", attrs, 2, qkv, 3, 2);
    m->x = op(m, "linear", NULL, 0, (weft_tensor[]){y, param(m, "out", &back)}, 2, 1);
}

static void refused(built *m, const char *why)
{
    assert_int_equal(graph_cached_check(&m->g, ROWS), WEFT_UNSUPPORTED);
    if (!strstr(err_text(), why))
        fail_msg("'%s' lacks '%s'", err_text(), why);
    err_clear();
    graph_free(&m->g);
}

TEST(test_what_cannot_continue)
{
    const weft_attr along = WEFT_ATTR_INT("tokens", 0);
    built m;
    begin(&m);
    attend(&m, ROWS, 0, false);
    refused(&m, "the op attention of block only lets a token attend to later ones");
    begin(&m);
    attend(&m, ROWS / 2, 1, false);
    refused(&m, "takes its rows for more sequences than one");
    begin(&m);
    attend(&m, ROWS, 1, true);
    m.x = op(&m, "sum_axis", &along, 1, &m.x, 1, 1);
    refused(&m, "the op sum_axis of block only combines rows of a sequence");
    begin(&m);
    assert_int_equal(graph_cached_check(&m.g, ROWS), WEFT_OK);
    assert_int_equal(graph_cached_make(&m.g, LIMIT), WEFT_UNSUPPORTED);
    assert_non_null(strstr(err_text(), "no attention"));
    err_clear();
    graph_free(&m.g);
}

static uint32_t count(const graph *g, const char *id)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        n += !strcmp(g->nodes.at[i].id, id);
    return n;
}

TEST(test_what_becomes_of_it)
{
    built m;
    begin(&m);
    attend(&m, ROWS, 1, true);
    assert_int_equal(graph_cached_check(&m.g, ROWS), WEFT_OK);
    assert_int_equal(graph_cached_make(&m.g, LIMIT), WEFT_OK);
    assert_int_equal(count(&m.g, "attention"), 0);
    assert_int_equal(count(&m.g, "attention.cached"), 1);
    assert_int_equal(count(&m.g, "cache.write"), 2);
    const weft_tensor cache = graph_find(&m.g, "cache.0.v");
    assert_int_not_equal(cache, 0);
    assert_int_equal(graph_tensor_at(&m.g, cache)->kind, WEFT_T_STATE);
    assert_int_equal(graph_tensor_at(&m.g, cache)->shape.axes[1].size, LIMIT);
    for (uint32_t i = 0; i < m.g.nodes.n; i++)
        if (!strcmp(m.g.nodes.at[i].id, "rope")) {
            assert_int_equal(m.g.nodes.at[i].nin, 2);
            assert_int_equal(m.g.nodes.at[i].in[1], graph_find(&m.g, "positions"));
        }
    const uint32_t before = m.g.nodes.n;
    graph_cached_prune(&m.g); /* what follows the last cache.write */
    assert_int_equal(m.g.nodes.n, before - 4);
    assert_int_equal(count(&m.g, "attention.cached"), 0);
    graph_free(&m.g);
}

/* Elements that the nodes read and write, and their floating-point operations, apart from the two
 * ops that have the caches. */
static double work(int64_t context, double *flops)
{
    double elements = 0;
    built m;
    begin(&m);
    attend(&m, ROWS, 1, true);
    assert_int_equal(graph_cached_make(&m.g, context), WEFT_OK);
    *flops = 0;
    for (uint32_t i = 0; i < m.g.nodes.n; i++) {
        const graph_node *n = &m.g.nodes.at[i];
        if (strstr(n->id, "cache"))
            continue;
        *flops += graph_node_flops(&m.g, n);
        for (uint32_t k = 0; k < n->nin; k++)
            elements += (double)graph_shape_elements(&graph_tensor_at(&m.g, n->in[k])->shape);
        for (uint32_t k = 0; k < n->nout; k++)
            elements += (double)graph_shape_elements(&graph_tensor_at(&m.g, n->out[k])->shape);
    }
    graph_free(&m.g);
    return elements;
}

/* No op but attention over the cache does more in a longer context. */
TEST(test_work_of_a_token)
{
    double few, many;
    assert_true(work(LIMIT, &few) == work(100 * LIMIT, &many));
    assert_true(few == many && few > 0);
}
