/* plan/edits/view.c: the read-only view of the graph for strategies (weft/strategy.h). */
#include "plan/edits/emitters.h"

#include "base/err.h"
#include "base/sized.h"

static plan_edit_state *state(void *ctx)
{
    return ctx;
}

/* Answers into a struct of the plugin, whose size the plugin has set. */
static weft_status give(const plan_edit_state *e, const char *call, void *out, const void *answer)
{
    const weft_status st = sized_give(call, out, answer);
    if (st != WEFT_OK)
        err_put_name(ERR_OWNER, e->owner);
    return st;
}

static uint32_t v_mesh(void *ctx, const char *axis)
{
    int a = ctx && axis ? graph_mesh_axis(&state(ctx)->s->mesh, axis) : -1;
    return a < 0 ? 0 : state(ctx)->s->mesh.size[a];
}

static uint32_t v_passes(void *ctx)
{
    return ctx ? (uint32_t)state(ctx)->micro_batches : 0;
}

static uint32_t v_tensors(void *ctx)
{
    return ctx ? state(ctx)->g->tensors.n : 0;
}

static weft_status v_tensor(void *ctx, weft_tensor t, weft_tensor_info *out)
{
    plan_edit_state *e = state(ctx);
    if (!ctx || !out)
        return plan_edits_null(ctx, "view.tensor", "out");
    if (t < 1 || t > e->g->tensors.n)
        return err_fail(WEFT_USAGE, "the graph has no tensor number %u", t);
    const graph_tensor *x = graph_tensor_at(e->g, t);
    const weft_tensor_info info = {
        .struct_size = sizeof info,
        .flags = x->kind == WEFT_T_PARAM ? x->flags : 0,
        .name = x->name,
        .role = x->role,
        .kind = x->kind,
        .block = x->block,
        .shape = e->phase >= WEFT_PHASE_SYNC ? graph_local_shape(e->g, t) : x->shape,
    };
    return give(e, "view.tensor", out, &info);
}

static weft_status v_place(void *ctx, weft_tensor t, const char *axis, weft_place *out)
{
    plan_edit_state *e = state(ctx);
    if (!ctx || !axis || !out)
        return plan_edits_null(ctx, "view.place", axis ? "out" : "mesh_axis");
    int a = graph_mesh_axis(&e->s->mesh, axis);
    if (a < 0 || t < 1 || t > e->g->tensors.n)
        return err_fail(WEFT_USAGE, "no tensor number %u or no mesh axis '%s'", t, axis);
    *out = graph_tensor_at(e->g, t)->place[a];
    return WEFT_OK;
}

static uint32_t v_blocks(void *ctx)
{
    return ctx ? state(ctx)->g->blocks.n : 0;
}

static const char *v_block(void *ctx, uint32_t i)
{
    return ctx && i < state(ctx)->g->blocks.n ? state(ctx)->g->blocks.at[i] : NULL;
}

static double v_flops(void *ctx, uint32_t block)
{
    const graph *g = ctx ? state(ctx)->g : NULL;
    double sum = 0;
    for (uint32_t i = 0; g && i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        if (n->block != block || n->phase != PHASE_FORWARD || !n->op)
            continue;
        sum += graph_node_flops(g, n);
    }
    return sum;
}

static uint64_t v_params(void *ctx, uint32_t block)
{
    const graph *g = ctx ? state(ctx)->g : NULL;
    uint64_t sum = 0;
    for (uint32_t i = 0; g && i < g->tensors.n; i++)
        if (g->tensors.at[i].kind == WEFT_T_PARAM && g->tensors.at[i].block == block)
            sum += graph_shape_elements(&g->tensors.at[i].shape);
    return sum;
}

static uint32_t v_ops(void *ctx)
{
    return ctx ? state(ctx)->g->nodes.n : 0;
}

static weft_status v_op(void *ctx, uint32_t i, const char **id, weft_opcall *call)
{
    if (!ctx || !id || !call)
        return plan_edits_null(ctx, "view.op", id ? "call" : "id");
    const graph *g = state(ctx)->g;
    if (i >= g->nodes.n)
        return err_fail(WEFT_USAGE, "the graph has no op number %u", i);
    const graph_node *n = &g->nodes.at[i];
    *id = n->id;
    const weft_opcall answer = {sizeof answer, n->nattr, n->attrs, n->nin,
                                n->nout,       n->in,    n->out,   NULL};
    return give(state(ctx), "view.op", call, &answer);
}

weft_view plan_edits_view(plan_edit_state *e)
{
    return (weft_view){sizeof(weft_view), 0,        e,       v_mesh,  v_passes, v_tensors, v_tensor,
                       v_place,           v_blocks, v_block, v_flops, v_params, v_ops,     v_op};
}
