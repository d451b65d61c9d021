/* plan/edits/run.c: calls edit() of all strategies and of the placement, phase by phase. */
#include "plan/edits/emitters.h"

#include "graph/inputs.h"
#include "host/call.h"

/* The mesh axes of the job with their keys: "parallel.tp = 2, parallel.dp = 1". */
static const char *axes_text(const plan_edit_state *e)
{
    char *text = pool_text(e->pool, "parallel.strategy = none");
    for (uint32_t a = 0; a < e->s->mesh.n; a++)
        text = pool_printf(e->pool, "%s%s%s = %u", a ? text : "", a ? ", " : "", e->s->size_key[a],
                           e->s->mesh.size[a]);
    return text;
}

static weft_status run_placement(plan_edit_state *e, const weft_view *view, const weft_edits *edits)
{
    const spec_plugin *placement = &e->s->placement;
    const weft_placement *table = placement->c->table;
    const weft_rule *rule = e->s->rule.c->table;
    const char *axes[WEFT_MAX_MESH + 1] = {0};
    const weft_tensor t = graph_first_input(e->g);
    uint32_t n = 0;
    for (uint32_t a = e->g->mesh->n; t && a-- > 0;)
        if (graph_tensor_at(e->g, t)->place[a].kind == WEFT_SPLIT)
            axes[n++] = e->g->mesh->name[a];
    if (!n)
        return resolve_refuse(e->s, CONSTRAINT_PLACEMENT, "optim.placement",
                              (config_fact[]){{"optim.placement", 0, placement->c->name},
                                              {"axes", 0, axes_text(e)},
                                              {0}});
    e->owner = pool_printf(e->pool, "placement %s", placement->c->name);
    e->placing = true;
    plan_edits_begin(e);
    const weft_placement_args args = {sizeof args, 0, view, edits, axes, rule->unit, 0};
    weft_status st = PLUGIN_CALL(table, edit, placement->c->module, placement->conf, &args);
    e->placing = false;
    return plan_edits_answer(e, st);
}

weft_status plan_edits_run(plan_edit_state *e, uint32_t phase)
{
    weft_view view = plan_edits_view(e);
    weft_edits edits = plan_edits_table(e);
    e->phase = phase;
    plan_edits_show_groups(e);
    weft_status marked = WEFT_OK;
    if (phase == WEFT_PHASE_MEMORY && e->s->recompute)
        marked = graph_set_keep(e->g, e->s->recompute, WEFT_ACTIVATION_RECOMPUTE, NULL);
    if (marked != WEFT_OK)
        return marked;
    for (uint32_t i = 0; i < e->s->nstrategies; i++) {
        const spec_plugin *p = &e->s->strategies[i];
        const weft_strategy *table = p->c->table;
        e->owner = pool_printf(e->pool, "strategy %s", p->c->name);
        plan_edits_begin(e);
        weft_status st = plan_edits_answer(
            e, PLUGIN_CALL(table, edit, p->c->module, p->conf, phase, &view, &edits));
        if (st != WEFT_OK)
            return st;
    }
    if (phase == WEFT_PHASE_SPLIT)
        return graph_apply_replacements(e->g);
    if (phase == WEFT_PHASE_STAGE)
        return plan_stages_finish(e);
    if (phase != WEFT_PHASE_SYNC || !e->s->placement.c)
        return WEFT_OK;
    return run_placement(e, &view, &edits);
}
