/* plan/edits/apply.c: the tables that strategies read and write (weft/strategy.h). */
#include "base/err.h"
#include "host/call.h"
#include "plan/build.h"

#include <string.h>

static edit_state *state(void *ctx)
{
    return ctx;
}

/* --- what a strategy reads --- */

static uint32_t v_mesh(void *ctx, const char *axis)
{
    int a = ctx && axis ? mesh_axis(&state(ctx)->s->mesh, axis) : -1;
    return a < 0 ? 0 : state(ctx)->s->mesh.size[a];
}

static uint32_t v_passes(void *ctx)
{
    return ctx ? (uint32_t)state(ctx)->passes : 0;
}

static uint32_t v_tensors(void *ctx)
{
    return ctx ? state(ctx)->g->tensors.n : 0;
}

static weft_status v_tensor(void *ctx, weft_tensor t, weft_shape *shape, const char **name,
                            uint32_t *kind, uint32_t *block)
{
    edit_state *e = state(ctx);
    if (!ctx || !shape || !name || !kind || !block)
        return edits_null(ctx, "view.tensor",
                          !shape  ? "shape"
                          : !name ? "name"
                          : !kind ? "kind"
                                  : "block");
    if (t < 1 || t > e->g->tensors.n)
        return fail(WEFT_USAGE, "the graph has no tensor number %u", t);
    const tensor *x = graph_tensor(e->g, t);
    *shape = e->phase >= WEFT_PHASE_SYNC ? graph_local(e->g, t) : x->shape;
    *name = x->name;
    *kind = x->kind;
    *block = x->block;
    return WEFT_OK;
}

static weft_status v_place(void *ctx, weft_tensor t, const char *axis, weft_place *out)
{
    edit_state *e = state(ctx);
    if (!ctx || !axis || !out)
        return edits_null(ctx, "view.place", axis ? "out" : "mesh_axis");
    int a = mesh_axis(&e->s->mesh, axis);
    if (a < 0 || t < 1 || t > e->g->tensors.n)
        return fail(WEFT_USAGE, "no tensor number %u or no mesh axis '%s'", t, axis);
    *out = graph_tensor(e->g, t)->place[a];
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
        const node *n = &g->nodes.at[i];
        if (n->block != block || n->phase != PHASE_FORWARD || !n->op || !n->op->flops)
            continue;
        weft_shape in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
        for (uint32_t k = 0; k < n->nin; k++)
            in[k] = graph_local(g, n->in[k]);
        for (uint32_t k = 0; k < n->nout; k++)
            out[k] = graph_local(g, n->out[k]);
        sum += PLUGIN_GET(n->op, flops, n->attrs, n->nattr, in, n->nin, out, n->nout);
    }
    return sum;
}

static uint64_t v_params(void *ctx, uint32_t block)
{
    const graph *g = ctx ? state(ctx)->g : NULL;
    uint64_t sum = 0;
    for (uint32_t i = 0; g && i < g->tensors.n; i++)
        if (g->tensors.at[i].kind == WEFT_T_PARAM && g->tensors.at[i].block == block)
            sum += shape_elements(&g->tensors.at[i].shape);
    return sum;
}

static uint32_t v_ops(void *ctx)
{
    return ctx ? state(ctx)->g->nodes.n : 0;
}

static weft_status v_op(void *ctx, uint32_t i, const char **id, weft_opcall *call)
{
    if (!ctx || !id || !call)
        return edits_null(ctx, "view.op", id ? "call" : "id");
    const graph *g = state(ctx)->g;
    if (i >= g->nodes.n)
        return fail(WEFT_USAGE, "the graph has no op number %u", i);
    const node *n = &g->nodes.at[i];
    *id = n->id;
    *call = (weft_opcall){sizeof *call, n->nattr, n->attrs, n->nin, n->nout, n->in, n->out, NULL};
    return WEFT_OK;
}

/* --- what it emits --- */

weft_status edits_in_phase(const edit_state *e, uint32_t phase, const char *edit)
{
    if (e->phase == phase)
        return WEFT_OK;
    return fail(WEFT_USAGE, "%s emitted a '%s' edit in phase %u; it belongs to phase %u", e->owner,
                edit, e->phase, phase);
}

weft_status edits_axis(const edit_state *e, const char *name, uint32_t *out)
{
    int a = mesh_axis(&e->s->mesh, name);
    for (uint32_t i = 0; a < 0 && i < e->groups.n; i++)
        if (!strcmp(e->groups.at[i].name, name))
            a = (int)(FIRST_GROUP + i);
    if (a < 0)
        return fail(WEFT_USAGE, "%s names the mesh axis '%s', which no strategy of this job brings",
                    e->owner, name);
    *out = (uint32_t)a;
    return WEFT_OK;
}

weft_status e_split(void *ctx, const char *tensors, const char *axis, const char *mesh_name)
{
    edit_state *e = state(ctx);
    uint32_t a = 0;
    weft_status s = edits_in_phase(e, WEFT_PHASE_SPLIT, "split");
    if (!s)
        s = edits_axis(e, mesh_name, &a);
    if (!s && a >= FIRST_GROUP)
        s = fail(WEFT_USAGE, "%s splits '%s' over the group %s; only a mesh axis cuts a tensor",
                 e->owner, tensors, mesh_name);
    if (s || e->s->mesh.size[a] == 1)
        return s;
    s = graph_split(e->g, tensors, axis, a);
    if (s)
        err_context("%s, %s = %u", e->owner, e->s->size_key[a], e->s->mesh.size[a]);
    return s;
}

weft_status e_sync(void *ctx, const char *params, const char *mesh_name, uint32_t when,
                   uint64_t bucket_bytes)
{
    edit_state *e = state(ctx);
    uint32_t a = 0;
    weft_status s = edits_in_phase(e, WEFT_PHASE_SYNC, "sync");
    if (!s)
        s = edits_axis(e, mesh_name, &a);
    if (!s && (when < WEFT_SYNC_LAST || when > WEFT_SYNC_NEVER))
        s = fail(WEFT_USAGE, "%s asks for sums of gradients at the unknown time %u", e->owner,
                 when);
    bucket_bytes = bucket_bytes ? bucket_bytes : e->s->bucket_bytes;
    if (!s && bucket_bytes < 1024)
        s = fail(WEFT_USAGE, "%s asks for buckets of %llu bytes; at least 1024 make sense",
                 e->owner, (unsigned long long)bucket_bytes);
    if (!s)
        *vec_push(&e->syncs) =
            (sync_edit){pool_text(e->pool, params), e->owner, a, when, bucket_bytes, e->placing};
    return s;
}

static weft_status refuse(void *ctx, const char *edit)
{
    return fail(WEFT_UNSUPPORTED,
                "%s emitted a '%s' edit, which this version of the core does not "
                "apply",
                state(ctx)->owner, edit);
}

weft_status e_replace(void *ctx, uint32_t op, weft_emit emit, void *user)
{
    edit_state *e = state(ctx);
    weft_status s = edits_in_phase(e, WEFT_PHASE_SPLIT, "replace");
    if (!s)
        s = graph_replace(e->g, op, emit, user);
    if (s)
        err_context("%s", e->owner);
    return s;
}

weft_status e_store(void *ctx, uint32_t what, const char *params, const char *axis, uint32_t ahead)
{
    edit_state *e = state(ctx);
    const spec_plugin *rule = &e->s->rule;
    const weft_rule *table = rule->c->table;
    uint32_t a = 0;
    bool any = false;
    weft_status s = edits_in_phase(e, WEFT_PHASE_SYNC, "store");
    if (!s)
        s = edits_axis(e, axis, &a);
    if (!s && (a >= FIRST_GROUP || what < WEFT_SHARD_STATE || what > WEFT_SHARD_PARAMS))
        s = fail(WEFT_USAGE, "%s stores something unknown (%u), or over the group %s", e->owner,
                 what, axis);
    if (!s && table->unit == WEFT_UNIT_MATRIX)
        s = fail(WEFT_UNSUPPORTED,
                 "%s cuts parameters anywhere, and optim.rule = %s needs whole matrices; this "
                 "version has no placement for such rules: say optim.placement = none",
                 e->owner, rule->c->name);
    for (uint32_t i = 0; !s && !any && i < e->g->tensors.n; i++)
        any = e->g->tensors.at[i].kind == WEFT_T_PARAM &&
              glob_match(params, e->g->tensors.at[i].name);
    if (!s && !any)
        s = fail(WEFT_USAGE, "%s: no parameter has a name like '%s'", e->owner, params);
    if (!s && e->s->mesh.size[a] > 1)
        *vec_push(&e->stores) = (store_edit){pool_text(e->pool, params), e->owner, what, a, ahead};
    return s;
}

weft_status e_keep(void *ctx, const char *tensors, uint32_t how, const char *axis)
{
    edit_state *e = state(ctx);
    weft_status s = edits_in_phase(e, WEFT_PHASE_MEMORY, "keep");
    if (!s && how == WEFT_ACTIVATION_SPLIT)
        s = fail(WEFT_UNSUPPORTED,
                 "%s wants '%s' kept in parts over '%s'; this version of the core keeps a tensor "
                 "whole or makes it again",
                 e->owner, tensors, axis ? axis : "(no mesh axis)");
    if (!s && how != WEFT_ACTIVATION_WHOLE && how != WEFT_ACTIVATION_RECOMPUTE)
        s = fail(WEFT_USAGE, "%s wants '%s' kept in the unknown way %u", e->owner, tensors, how);
    if (!s)
        s = graph_keep(e->g, tensors, how, e->owner);
    if (s)
        err_context("edit 'keep' of %s", e->owner);
    return s;
}

weft_status e_carry(void *ctx, const char *params, uint32_t versions)
{
    (void)params, (void)versions;
    return refuse(ctx, "carry");
}

/* Is there a line that begins so, or (whole) is so? */
static bool has_line(const char *lines, const char *text, bool whole)
{
    const size_t n = strlen(text);
    for (const char *at = lines; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (!strncmp(at, text, n) && (!whole || at[n] == '\n' || !at[n]))
            return true;
    return false;
}

void edits_tell(edit_state *e, const char *line)
{
    if (has_line(e->changes, line, true)) /* a graph is planned more than once */
        return;
    e->changes =
        e->changes ? pool_printf(e->pool, "%s\n%s", e->changes, line) : pool_text(e->pool, line);
}

bool edits_told(const edit_state *e, const char *owner)
{
    pool p = {0};
    const bool told = has_line(e->changes, pool_printf(&p, "%s: ", owner), false);
    pool_free(&p);
    return told;
}

weft_status e_changes(void *ctx, const char *text)
{
    edit_state *e = state(ctx);
    if (e->changes && strlen(e->changes) + strlen(text) > EDITS_MOST_TEXT)
        return fail(WEFT_USAGE,
                    "%s: edits.changes_results(): the lines of this job have more than %u bytes",
                    e->owner, EDITS_MOST_TEXT);
    edits_tell(e, pool_printf(e->pool, "%s: %s", e->owner, text));
    return WEFT_OK;
}

/* The mesh axes that there are, with their keys: "parallel.tp = 2, parallel.dp = 1". */
static const char *axes_text(const edit_state *e)
{
    char *text = pool_text(e->pool, "parallel.strategy = none");
    for (uint32_t a = 0; a < e->s->mesh.n; a++)
        text = pool_printf(e->pool, "%s%s%s = %u", a ? text : "", a ? ", " : "", e->s->size_key[a],
                           e->s->mesh.size[a]);
    return text;
}

static weft_status run_placement(edit_state *e, const weft_view *view, const weft_edits *edits)
{
    const spec_plugin *placement = &e->s->placement;
    const weft_placement *table = placement->c->table;
    const weft_rule *rule = e->s->rule.c->table;
    const char *axes[WEFT_MAX_MESH + 1] = {0};
    weft_tensor t = graph_find(e->g, "tokens");
    uint32_t n = 0;
    for (uint32_t a = e->g->mesh->n; t && a-- > 0;)
        if (graph_tensor(e->g, t)->place[a].kind == WEFT_SPLIT)
            axes[n++] = e->g->mesh->name[a];
    if (!n)
        return resolve_refuse(e->s, COMBINE_PLACEMENT, "optim.placement",
                              (combine_fact[]){{"optim.placement", 0, placement->c->name},
                                               {"axes", 0, axes_text(e)},
                                               {0}});
    e->owner = pool_printf(e->pool, "placement %s", placement->c->name);
    e->placing = true;
    edits_begin(e);
    weft_status s = PLUGIN_CALL(table, edit, placement->c->module, placement->conf, view, edits,
                                axes, rule->unit);
    e->placing = false;
    return edits_answer(e, s);
}

weft_status edits_run(edit_state *e, uint32_t phase)
{
    weft_view view = {sizeof view, 0,        e,       v_mesh,  v_passes, v_tensors, v_tensor,
                      v_place,     v_blocks, v_block, v_flops, v_params, v_ops,     v_op};
    weft_edits edits = edits_table(e);
    e->phase = phase;
    weft_status marked = WEFT_OK;
    if (phase == WEFT_PHASE_MEMORY && e->s->recompute)
        marked = graph_keep(e->g, e->s->recompute, WEFT_ACTIVATION_RECOMPUTE, NULL);
    if (marked)
        return marked;
    for (uint32_t i = 0; i < e->s->nstrategies; i++) {
        const spec_plugin *p = &e->s->strategies[i];
        const weft_strategy *table = p->c->table;
        e->owner = pool_printf(e->pool, "strategy %s", p->c->name);
        edits_begin(e);
        weft_status s =
            edits_answer(e, PLUGIN_CALL(table, edit, p->c->module, p->conf, phase, &view, &edits));
        if (s)
            return s;
    }
    if (phase == WEFT_PHASE_SPLIT)
        return graph_settle(e->g);
    if (phase == WEFT_PHASE_STAGE)
        return stages_finish(e);
    if (phase != WEFT_PHASE_SYNC || !e->s->placement.c)
        return WEFT_OK;
    return run_placement(e, &view, &edits);
}
