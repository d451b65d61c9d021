/* plan/optim/rule.c: builds the graph of the update rule and finds addresses of its tensors. */
#include "plan/optim/rule.h"

#include "base/err.h"
#include "graph/arguments.h"
#include "host/call.h"

#include <string.h>
#include <weft/expr.h>

const char *plan_rule_suffix(const graph_tensor *state)
{
    return strchr(state->name, '.') + 1;
}

/* The source of the assignment to `dst` among the nodes of the graph; 0: none. */
static weft_tensor assigned(const graph *g, weft_tensor dst, uint32_t *times)
{
    weft_tensor src = 0;
    *times = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].assign && g->nodes.at[i].out[0] == dst) {
            src = g->nodes.at[i].in[0];
            ++*times;
        }
    return src;
}

static weft_status check_assigned(const graph *g, weft_tensor param)
{
    for (uint32_t i = 1; i <= g->tensors.n; i++) {
        const graph_tensor *t = graph_tensor_at(g, i);
        uint32_t times;
        if (i != param && t->kind != WEFT_T_STATE)
            continue;
        assigned(g, i, &times);
        if (times != 1)
            return err_fail(WEFT_USAGE, "the rule assigns %s %u times; it must be once",
                            i == param ? "the parameter" : t->name, times);
    }
    return WEFT_OK;
}

uint32_t plan_rule_kinds(const plan_builder *b)
{
    return (1 + b->p->intervals.n) * (1 + b->p->spec->ngroups);
}

uint32_t plan_rule_kind(const plan_builder *b, uint32_t interval, uint32_t group)
{
    return interval * (1 + b->p->spec->ngroups) + group;
}

static weft_tensor add(graph *g, const char *name, uint32_t kind, const weft_shape *shape,
                       const weft_place *place)
{
    const weft_tensor t = graph_add(g, name, kind, shape);
    if (place)
        memcpy(graph_tensor_at(g, t)->place, place, sizeof graph_tensor_at(g, t)->place);
    return t;
}

weft_status plan_rule_graph(plan_builder *b, const plan_rule_key *of, const weft_shape *shape,
                            const weft_place *place, plan_rule_update *out)
{
    graph *g = &out->g;
    graph_init(g, b->g->mesh, b->g->ops, WEFT_F32, WEFT_F32);
    out->param = add(g, "p", WEFT_T_PARAM, shape, place);
    out->grad = add(g, "g", WEFT_T_ACTIVATION, shape, place);
    if (b->f->compute != b->f->master)
        out->copy = add(g, "copy", WEFT_T_PARAM, shape, place);
    const plan_interval *some = of->interval ? &b->p->intervals.at[of->interval - 1] : NULL;
    const spec_group *group = of->group ? &b->p->spec->groups[of->group - 1] : NULL;
    const spec_plugin *rule = &b->p->spec->rule;
    const weft_conf *conf = group ? group->conf : rule->conf;
    const weft_rule *table = rule->c->table;
    weft_builder w = graph_builder(g);
    weft_expr e = {&w, WEFT_OK};
    weft_tensor clip;
    weft_update u = {.struct_size = sizeof u,
                     .flags = of->flags & WEFT_PARAM_MATRIX,
                     .name = "p",
                     .param = out->param,
                     .role = of->role};
    weft_status st = w.scalar(w.ctx, "clip", 0, &clip);
    if (st == WEFT_OK)
        st = w.scalar(w.ctx, "lr", 0, &u.lr);
    if (st == WEFT_OK)
        st = w.scalar(w.ctx, some ? some->count : "count", 0, &u.count);
    e.st = st;
    u.grad = weft_op2(&e, "mul", out->grad, clip);
    if (some && some->mean)
        u.grad = weft_scale(&e, u.grad, 1.0 / some->every);
    if (group && group->share != 1)
        u.lr = weft_scale(&e, u.lr, group->share);
    st = e.st;
    g->now.state_of = "p";
    g->now.by_element = plan_rule_by_element(b);
    if (st == WEFT_OK)
        st = graph_check_return(PLUGIN_CALL(table, update, rule->c->module, conf, &w, &u),
                                ERR_OWNER, "the rule", "update");
    if (st == WEFT_OK)
        st = check_assigned(g, out->param);
    uint32_t times;
    if (st == WEFT_OK && out->copy)
        st = w.assign(w.ctx, out->copy, assigned(g, out->param, &times), 0);
    if (st == WEFT_OK)
        st = w.scalar(w.ctx, "gate", 0, &out->gate);
    if (st != WEFT_OK)
        err_context("update rule %s", rule->c->name);
    return st != WEFT_OK ? st : plan_rule_scalars_take(b, g, out->gate, some);
}

bool plan_rule_by_element(const plan_builder *b)
{
    const weft_rule *table = b->p->spec->rule.c->table;
    return table->unit == WEFT_UNIT_ELEMENT;
}

uint32_t plan_rule_source(const plan_rule_update *u, weft_tensor t)
{
    return t == u->param  ? RULE_PARAM
           : t == u->grad ? RULE_GRAD
           : t == u->copy ? RULE_COPY
                          : RULE_SCALAR;
}

plan_tensor_place plan_rule_place(const plan_builder *b, uint32_t from, uint64_t first,
                                  uint32_t slice_of)
{
    const plan_flat *f = b->f;
    uint64_t region = f->master;
    uint32_t level = FLAT_STATE, dtype = WEFT_F32;
    if (from >= RULE_STATE) {
        region = f->states.at[from - RULE_STATE].offset;
        dtype = f->states.at[from - RULE_STATE].dtype;
    } else if (from == RULE_GRAD) {
        region = f->grads;
        level = FLAT_GRADS;
        dtype = b->g->grad_dtype;
    } else if (from == RULE_COPY || (from == RULE_PARAM && f->master == f->compute)) {
        region = f->compute;
        level = FLAT_PARAMS;
        dtype = b->g->compute;
    }
    const uint64_t size = weft_dtype_size(dtype);
    if (!slice_of)
        return (plan_tensor_place){region + plan_flat_index(f, first, level) * size, 0, 0, dtype};
    const plan_flat_slice own = plan_flat_own(f, slice_of - 1, level, region, size);
    return (plan_tensor_place){own.at, own.shift,
                               f->blocks.at[f->groups.at[slice_of - 1].block].axis, dtype};
}
