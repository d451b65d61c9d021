/* Does dp split the data, and have every gradient summed once a step? */

#include "base/err.h"
#include "graph/graph.h"

#include <weft/strategy.h>

#include <test.h>

#include "builtin.h"
#include "family.h"

#include "open.h"

/* What was emitted, as text. */
typedef struct record {
    uint32_t mesh;
    graph *g;
    char text[256];
} record;

static uint32_t mesh_size(void *ctx, const char *axis)
{
    return strcmp(axis, "dp") ? 0 : ((record *)ctx)->mesh;
}

static weft_status on_split(void *ctx, const char *tensors, const char *axis, const char *mesh_axis,
                            uint32_t flags)
{
    assert_int_equal(flags, 0);
    record *r = ctx;
    snprintf(r->text, sizeof r->text, "split %s along %s over %s", tensors, axis, mesh_axis);
    return r->g ? graph_split(r->g, tensors, axis, 0) : WEFT_OK;
}

static weft_status on_sync(void *ctx, const char *params, const char *mesh_axis, uint32_t when,
                           uint64_t bytes, uint32_t flags)
{
    record *r = ctx;
    assert_int_equal(flags, 0);
    snprintf(r->text, sizeof r->text, "sync %s over %s %u %u", params, mesh_axis, when,
             (uint32_t)bytes);
    return WEFT_OK;
}

static weft_status ask(record *r, uint32_t phase)
{
    option_values values = {open_component("parallel", "dp"), ""};
    weft_conf conf = conf_of(&values);
    const weft_strategy *s = values.of->table;
    weft_view view = {.struct_size = sizeof view, .ctx = r, .mesh = mesh_size};
    weft_edits edits = {.struct_size = sizeof edits, .ctx = r, .split = on_split, .sync = on_sync};
    assert_string_equal(s->axes[0]->name, "dp");
    assert_string_equal(s->axes[0]->size_key, "dp");
    assert_null(s->axes[1]);
    r->text[0] = 0;
    return s->edit(NULL, &conf, phase, &view, &edits);
}

TEST(what_it_says)
{
    record r = {.mesh = 4};
    assert_int_equal(ask(&r, WEFT_PHASE_SPLIT), WEFT_OK);
    assert_string_equal(r.text, "split @input along tokens over dp");
    assert_int_equal(ask(&r, WEFT_PHASE_STAGE), WEFT_OK);
    assert_string_equal(r.text, "");
    assert_int_equal(ask(&r, WEFT_PHASE_SYNC), WEFT_OK);
    assert_string_equal(r.text, "sync * over dp 1 0");
    assert_int_equal(ask(&r, WEFT_PHASE_MEMORY), WEFT_OK);
    assert_string_equal(r.text, "");
}

TEST(alone_it_says_nothing)
{
    record r = {.mesh = 1};
    for (uint32_t phase = WEFT_PHASE_SPLIT; phase <= WEFT_PHASE_MEMORY; phase++) {
        assert_int_equal(ask(&r, phase), WEFT_OK);
        assert_string_equal(r.text, "");
    }
}

/* On a GPT-2 the one split leaves every activation split, every parameter whole and every gradient
 * a partial sum, with no communication in between. */
TEST(all_else_follows)
{
    static const graph_mesh two = {1, {"dp"}, {2}};
    graph g;
    graph_init(&g, &two, builtin_ops(), WEFT_F32, WEFT_F32);
    weft_builder b = graph_builder(&g);
    family_options o = {"gpt2", 2, 2, 0, 8, 12, 16, 11, 1, 4, 16, 1.0, WEFT_MODEL_TRAIN, 0, 0, 0};
    weft_tensor loss;
    assert_int_equal(family_build(&b, &o, &loss), WEFT_OK);
    record r = {.mesh = 2, .g = &g};
    assert_int_equal(ask(&r, WEFT_PHASE_SPLIT), WEFT_OK);
    assert_int_equal(graph_propagate(&g, 0), WEFT_OK);
    const uint32_t first = g.nodes.n;
    assert_int_equal(graph_backward(&g, loss), WEFT_OK);
    assert_int_equal(graph_propagate(&g, first), WEFT_OK);
    uint32_t params = 0;
    for (uint32_t i = 0; i < g.nodes.n; i++) {
        const graph_node *n = &g.nodes.at[i];
        assert_int_equal(n->comm, 0);
        for (uint32_t k = 0; k < n->nout; k++) {
            const graph_tensor *x = graph_tensor_at(&g, n->out[k]);
            bool sum = x->kind == WEFT_T_GRAD || n->out[k] == loss;
            assert_int_equal(x->place[0].kind, sum ? WEFT_PARTIAL_SUM : WEFT_SPLIT);
        }
    }
    for (weft_tensor t = 1; t <= g.tensors.n; t++)
        if (graph_tensor_at(&g, t)->kind == WEFT_T_PARAM) {
            assert_int_equal(graph_tensor_at(&g, t)->place[0].kind, WEFT_WHOLE);
            assert_int_not_equal(graph_tensor_at(&g, t)->grad, 0);
            params++;
        }
    assert_int_equal(params, 2 + 2 * 12 + 2);
    graph_free(&g);
}
