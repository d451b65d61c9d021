/* Has every op of a graph that draws random numbers a stream of its own? What would draw the same
 * numbers twice is refused, a replacement and a gradient may draw those of their op again, and the
 * models keep the rule. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "family.h"

static const graph_mesh alone = {0};

typedef struct net {
    graph g;
    weft_builder b;
    weft_tensor x; /* [tokens, embed] */
} net;

static void begin(net *n)
{
    const weft_shape s = {.dtype = WEFT_F32, .rank = 2, .axes = {{"tokens", 8}, {"embed", 6}}};
    *n = (net){0};
    graph_init(&n->g, &alone, builtin_ops(), WEFT_F32, WEFT_F32);
    n->b = graph_builder(&n->g);
    assert_int_equal(n->b.block(n->b.ctx, "all", 0), WEFT_OK);
    n->x = graph_add(&n->g, "x", WEFT_T_ACTIVATION, &s);
}

static void refused(weft_status st, const char *why)
{
    assert_int_equal(st, WEFT_USAGE);
    if (!strstr(err_text(), why))
        fail_msg("'%s' where '%s' was expected", err_text(), why);
    err_clear();
}

static weft_status draw(const net *n, const char *id, int64_t stream)
{
    const weft_shape one = {.dtype = WEFT_I64};
    const weft_input_args args = {sizeof args, 0, "first_token", &one};
    weft_tensor first = 0, out;
    const weft_attr attr = WEFT_ATTR_INT("stream", stream);
    if (n->b.input(n->b.ctx, &args, &first) != WEFT_OK)
        fail_msg("%s", err_text());
    const bool dropout = !strcmp(id, "dropout");
    const weft_tensor in[] = {dropout ? n->x : first, dropout ? first : n->x};
    return n->b.op(n->b.ctx, id, &attr, stream ? 1 : 0, in, 2, 0, &out, 1);
}

static weft_status draw_again(void *user, const weft_builder *b)
{
    const net *n = user;
    const graph_node *old = &n->g.nodes.at[n->g.now.replacing - 1];
    const weft_tensor dst = old->out[0];
    assert_int_equal(draw(n, "dropout", 7), WEFT_OK); /* in place of the op that had it */
    const weft_tensor src = n->g.nodes.at[n->g.nodes.n - 1].out[0];
    refused(draw(n, "random", 7), "its stream, 7, is that of op number");
    return b->assign(b->ctx, dst, src, 0);
}

TEST(streams)
{
    net n;
    begin(&n);
    const uint32_t at = n.g.nodes.n;
    assert_int_equal(draw(&n, "dropout", 7), WEFT_OK);
    assert_int_equal(draw(&n, "dropout", 8), WEFT_OK);
    assert_int_equal(draw(&n, "random", 0), WEFT_OK);
    refused(draw(&n, "dropout", 7), "op dropout: its stream, 7, is that of op number");
    refused(draw(&n, "random", 8), "op random: its stream, 8, is that of op number");
    refused(draw(&n, "random", 0), "op random: its stream, 0, is that of op number");
    assert_int_equal(n.g.nodes.n, at + 3);
    if (graph_replace(&n.g, at, draw_again, &n) != WEFT_OK)
        fail_msg("%s", err_text());
    n.g.now.phase = PHASE_INPUTS; /* a gradient draws the numbers of its op */
    assert_int_equal(draw(&n, "dropout", 8), WEFT_OK);
    graph_free(&n.g);
}

/* Equal streams would drop the same elements. The graph of training alone draws. */
TEST(dropout_has_streams_of_its_own)
{
    for (int llama = 0; llama < 2; llama++)
        for (uint32_t want = WEFT_MODEL_TRAIN; want <= WEFT_MODEL_LOGITS; want++) {
            family_options o = {.family = llama ? "llama" : "gpt2",
                                .layers = 3,
                                .heads = 2,
                                .embed = 8,
                                .ffn = 16,
                                .context = 4,
                                .vocab = 11,
                                .tied = 1,
                                .batch = 2,
                                .sequence = 4,
                                .weight = 1,
                                .want = want,
                                .dropout = 0.1};
            graph g;
            weft_tensor out;
            uint32_t drawn = 0;
            graph_init(&g, &alone, builtin_ops(), WEFT_BF16, WEFT_F32);
            const weft_builder b = graph_builder(&g);
            assert_int_equal(family_build(&b, &o, &out), WEFT_OK);
            for (uint32_t i = 0; i < g.nodes.n; i++) {
                const graph_node *n = &g.nodes.at[i];
                if (strcmp(n->id, "dropout"))
                    continue;
                drawn++;
                assert_string_equal(n->attrs[0].key, "stream");
                for (uint32_t k = 0; k < i; k++)
                    if (!strcmp(g.nodes.at[k].id, "dropout"))
                        assert_true(g.nodes.at[k].attrs[0].i != n->attrs[0].i);
            }
            assert_int_equal(drawn, want == WEFT_MODEL_TRAIN ? 1 + 2 * o.layers : 0);
            graph_free(&g);
        }
}
