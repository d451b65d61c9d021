/* Can a Llama be split by the names of its axes?
 *
 * Heads, heads of keys and the inner width over a mesh axis, as tensor parallelism cuts them: the
 * pass stays local but for two sums a block forward, and placements are those that the names say.
 */
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "family.h"

#define LAYERS 3

static const graph_mesh two = {.n = 1, .name = {"tp"}, .size = {2}};

static void build(graph *g)
{
    const family_options o = {.family = "llama",
                              .layers = LAYERS,
                              .heads = 8,
                              .kv_heads = 2,
                              .embed = 32,
                              .ffn = 24,
                              .context = 6,
                              .vocab = 11,
                              .tied = FAMILY_TIED_AUTO,
                              .batch = 2,
                              .sequence = 6,
                              .weight = 1.0 / 12};
    weft_tensor loss;
    graph_init(g, &two, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(g);
    assert_int_equal(family_build(&b, &o, &loss), WEFT_OK);
    assert_int_equal(graph_backward(g, loss), WEFT_OK);
}

static void expect_split(const graph *g, weft_tensor t, uint32_t axis)
{
    const graph_tensor *x = graph_tensor_at(g, t);
    if (x->place[0].kind != WEFT_SPLIT || x->place[0].axis != axis)
        fail_msg("%s is placed %u, axis %u", x->name, x->place[0].kind, x->place[0].axis);
}

/* All operands and results of the nodes `id` are split along their axis 1. */
static void expect_local(const graph *g, const char *id, uint32_t times)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        if (strcmp(n->id, id))
            continue;
        for (uint32_t k = 0; k < n->nin; k++)
            expect_split(g, n->in[k], 1);
        for (uint32_t k = 0; k < n->nout; k++)
            expect_split(g, n->out[k], 1);
        count++;
    }
    assert_int_equal(count, times);
}

TEST(heads_and_ffn)
{
    graph g;
    build(&g);
    assert_int_equal(graph_split(&g, "block.*.attn.q.w|block.*.attn.out.w", "heads", 0), WEFT_OK);
    assert_int_equal(graph_split(&g, "block.*.attn.k.w|block.*.attn.v.w", "kv_heads", 0), WEFT_OK);
    assert_int_equal(graph_split(&g, "block.*.ffn.*", "ffn", 0), WEFT_OK);
    uint32_t forward = 0;
    if (graph_propagate(&g, 0) != WEFT_OK)
        fail_msg("%s", err_text());
    for (uint32_t i = 0; i < g.nodes.n; i++)
        forward += g.nodes.at[i].comm && g.nodes.at[i].phase == PHASE_FORWARD;
    assert_int_equal(forward, 2 * LAYERS);
    expect_local(&g, "rope", 4 * LAYERS);
    expect_local(&g, "attention", LAYERS);
    expect_local(&g, "attention.dx", LAYERS);
    expect_local(&g, "swiglu", LAYERS);
    expect_local(&g, "swiglu.dx", LAYERS);
    expect_split(&g, graph_tensor_at(&g, graph_find(&g, "block.1.attn.k.w"))->grad, 0);
    expect_split(&g, graph_tensor_at(&g, graph_find(&g, "block.1.ffn.down.w"))->grad, 1);
    graph_free(&g);
}

/* Queries alone: the keys that a rank's heads need would be on every rank. */
TEST(queries_alone)
{
    graph g;
    build(&g);
    assert_int_equal(graph_split(&g, "block.*.attn.q.w", "heads", 0), WEFT_OK);
    assert_int_equal(graph_propagate(&g, 0), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "split over the same mesh axis, but "));
    graph_free(&g);
}
