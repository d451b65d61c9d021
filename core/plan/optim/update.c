/* plan/optim/update.c: elementwise update rules, built once for matrices and once for the rest of
 * each parameter group and update interval, run over flat ranges.
 *
 * The rule sees one parameter as a flat range of fp32 elements. Its elementwise ops become one
 * program (graph/fuse.c), which runs once per block and group: it reads parameter, gradient and
 * states, and writes parameter, states and, in 16-bit jobs, the compute copy, in a single pass over
 * memory. A rule that is too long for one program runs as several, with temporaries of a range's
 * size (runs.c). update_each.c handles rules that need a whole parameter. */
#include "plan/optim/optim.h"

#include "base/err.h"
#include "plan/lower/walk.h"
#include "plan/optim/rule.h"

struct update_state {
    plan_rule_update *groups; /* [2 * kind]: matrices, the rest (plan_rule_kind()) */
    uint32_t n;
};

/* Its ops are elementwise, and each state is one region for all parameters. */
static weft_status check_update(plan_builder *b, const plan_rule_update *u)
{
    const graph *g = &u->g;
    graph_fused f;
    pool memory = {0};
    const char *rule = b->p->spec->rule.c->name;
    weft_status st = graph_fuse(g, &g->nodes, u->gate, NULL, &memory, &f);
    if (st != WEFT_OK)
        err_context("update rule %s", rule);
    for (weft_tensor t = 1; st == WEFT_OK && t <= g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(g, t);
        if (x->kind == WEFT_T_STATE &&
            !plan_flat_state_add(b->f, &b->p->pool, plan_rule_suffix(x), x))
            st = err_fail(WEFT_USAGE,
                          "update rule %s: state() declares '%s' with one type or init for "
                          "matrices and another for the rest; in a rule of unit element they are "
                          "equal",
                          rule, plan_rule_suffix(x));
    }
    pool_free(&memory);
    return st;
}

weft_status plan_update_prepare(plan_builder *b)
{
    b->rule = pool_alloc(&b->p->pool, sizeof *b->rule);
    if (!plan_rule_by_element(b))
        return plan_each_prepare(b);
    const uint32_t groups = 1 + b->p->spec->ngroups;
    const weft_shape flat_range = {.dtype = WEFT_F32, .rank = 1, .axes = {{"elements", 64}}};
    struct update_state *u = b->rule->update = pool_alloc(&b->p->pool, sizeof *u);
    u->n = 2 * plan_rule_kinds(b);
    u->groups = pool_array(&b->p->pool, u->n, sizeof *u->groups);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < u->n; i++) {
        const plan_rule_key of = {.flags = i % 2 ? 0 : WEFT_PARAM_MATRIX,
                                  .interval = i / 2 / groups,
                                  .group = i / 2 % groups};
        st = plan_rule_graph(b, &of, &flat_range, NULL, &u->groups[i]);
        if (st == WEFT_OK)
            st = check_update(b, &u->groups[i]);
    }
    return st;
}

/* A range of elements for one call of the rule: of an unsharded block, or the own slice of a group
 * of a sharded one. */
typedef struct range {
    uint64_t first, count;
    uint32_t group; /* 1 + the group; 0: unsharded */
    const char *name;
} range;

typedef struct finding {
    plan_builder *b;
    const plan_rule_update *u;
    const range *r;
} finding;

static bool find(void *ctx, weft_tensor t, plan_tensor_place *out)
{
    const finding *f = ctx;
    const graph_tensor *x = graph_tensor_at(&f->u->g, t);
    uint32_t from = plan_rule_source(f->u, t);
    if (x->kind == WEFT_T_STATE)
        from = RULE_STATE + (uint32_t)plan_flat_state_of(f->b->f, plan_rule_suffix(x));
    if (from != RULE_SCALAR)
        *out = plan_rule_place(f->b, from, f->r->first, f->r->group);
    return from != RULE_SCALAR;
}

static weft_status update(plan_builder *b, plan_list *l, const plan_rule_key *of, const range *r)
{
    const uint32_t kind = plan_rule_kind(b, of->interval, of->group);
    const uint32_t rest = of->flags & WEFT_PARAM_MATRIX ? 0 : 1;
    plan_rule_update *u = &b->rule->update->groups[2 * kind + rest];
    finding f = {b, u, r};
    for (weft_tensor t = 1; t <= u->g.tensors.n; t++)
        if (graph_tensor_at(&u->g, t)->shape.rank)
            graph_tensor_at(&u->g, t)->shape.axes[0].size = (int64_t)r->count;
    l->interval = of->interval;
    const weft_status st = plan_graph_to_list(b, l,
                                              &(plan_to_list_work){&u->g,
                                                                   &u->g.nodes,
                                                                   {.name = r->name,
                                                                    .segment = "update",
                                                                    .gate = u->gate,
                                                                    .absolute = true,
                                                                    .find = find,
                                                                    .ctx = &f}});
    l->interval = 0;
    return st;
}

static weft_status update_slices(plan_builder *b, plan_list *l, const plan_flat_block *k,
                                 const char *name)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = k->first_group; st == WEFT_OK && i < k->first_group + k->groups; i++) {
        const plan_flat_group *x = &b->f->groups.at[i];
        const range r = {x->at[0], x->count / k->parts, 1 + i, name};
        st = update(b, l, &(plan_rule_key){NULL, x->flags, x->interval, x->rule_group}, &r);
        if (st == WEFT_OK)
            st = plan_zero_updated(b, l, i);
    }
    return st;
}

static bool alike(const plan_flat_param *p, const plan_flat_param *q)
{
    return p->interval == q->interval && p->rule_group == q->rule_group;
}

/* Update parameters [from, to) of an unsharded block, which end at element `end`: a call for each
 * range of one kind. */
static weft_status update_params(plan_builder *b, plan_list *l, uint32_t flags, uint32_t from,
                                 uint32_t to, uint64_t end, const char *name)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = from, next; st == WEFT_OK && i < to; i = next) {
        const plan_flat_param *p = &b->f->params.at[i];
        for (next = i + 1; next < to && alike(p, &b->f->params.at[next]);)
            next++;
        const uint64_t until = next < to ? b->f->params.at[next].first : end;
        const range r = {p->first, until - p->first, 0, name};
        if (r.count)
            st = update(b, l, &(plan_rule_key){NULL, flags, p->interval, p->rule_group}, &r);
    }
    return st;
}

weft_status plan_updates(plan_builder *b, plan_list *l)
{
    weft_status st = WEFT_OK;
    if (!plan_rule_by_element(b))
        return plan_each_updates(b, l);
    for (uint32_t i = b->f->blocks.n; st == WEFT_OK && i-- > 0;) {
        const plan_flat_block *k = &b->f->blocks.at[i];
        const uint32_t matrices = k->first_param + k->matrices, all = k->first_param + k->params;
        const char *name = pool_printf(&b->p->pool, "update %s", k->name);
        if (k->level) {
            st = update_slices(b, l, k, name);
            continue;
        }
        st =
            update_params(b, l, WEFT_PARAM_MATRIX, k->first_param, matrices, k->matrices_end, name);
        if (st == WEFT_OK)
            st = update_params(b, l, 0, matrices, all, k->end, name);
    }
    return st;
}

void plan_update_free(plan_builder *b)
{
    if (!b->rule)
        return;
    plan_each_free(b);
    for (uint32_t i = 0; b->rule->update && i < b->rule->update->n; i++)
        graph_free(&b->rule->update->groups[i].g);
}
