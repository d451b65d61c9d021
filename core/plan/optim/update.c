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
#include "plan/emit.h"
#include "plan/lower/zero_schedule.h"
#include "plan/optim/graph_to_list.h"
#include "plan/optim/rule.h"
#include "plan/scalar.h"

#include <string.h>

typedef struct group {
    graph g;
    graph_fused f;
    plan_rule_key of;
    weft_tensor param, grad, copy, gate;
} group;

struct update_state {
    group *groups; /* [2 * kind]: matrices, the rest (plan_rule_kind()) */
    uint32_t n;
};

static weft_status run_rule(plan_builder *b, group *k)
{
    weft_status st = plan_rule_graph(b, &k->g, k->param, k->grad, k->copy, &k->of, &k->gate);
    if (st != WEFT_OK)
        return st;
    st = graph_fuse(&k->g, &k->g.nodes, k->gate, NULL, &k->g.pool, &k->f);
    if (st != WEFT_OK)
        err_context("update rule %s", b->p->spec->rule.c->name);
    return st;
}

/* A state is one region for all parameters. */
static weft_status check_alike(plan_builder *b, const graph_tensor *x)
{
    const uint32_t at = plan_rule_state(b, x); /* may move the array */
    const plan_flat_state *k = &b->f->states.at[at];
    if (k->dtype == x->shape.dtype && !strcmp(k->init ? k->init : "", x->init ? x->init : ""))
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "update rule %s: state() declares '%s' with one type or init for matrices and "
                    "another for the rest; in a rule of unit element they are equal",
                    b->p->spec->rule.c->name, k->name);
}

weft_status plan_update_prepare(plan_builder *b)
{
    b->rule = pool_alloc(&b->p->pool, sizeof *b->rule);
    if (!plan_rule_by_element(b))
        return plan_each_prepare(b);
    struct update_state *u = pool_alloc(&b->p->pool, sizeof *u);
    b->rule->update = u;
    u->n = 2 * plan_rule_kinds(b);
    u->groups = pool_array(&b->p->pool, u->n, sizeof *u->groups);
    for (uint32_t i = 0; i < u->n; i++) {
        group *k = &u->groups[i];
        graph_init(&k->g, b->g->mesh, b->g->ops, WEFT_F32, WEFT_F32);
        const uint32_t groups = 1 + b->p->spec->ngroups;
        k->of = (plan_rule_key){.flags = i % 2 ? 0 : WEFT_PARAM_MATRIX,
                                .interval = i / 2 / groups,
                                .group = i / 2 % groups};
        weft_shape flat_range = {.dtype = WEFT_F32, .rank = 1, .axes = {{"elements", 64}}};
        k->param = graph_add(&k->g, "p", WEFT_T_PARAM, &flat_range);
        k->grad = graph_add(&k->g, "g", WEFT_T_ACTIVATION, &flat_range);
        if (b->f->compute != b->f->master)
            k->copy = graph_add(&k->g, "copy", WEFT_T_PARAM, &flat_range);
        weft_status st = run_rule(b, k);
        if (st != WEFT_OK)
            return st;
        for (uint32_t t = 1; st == WEFT_OK && t <= k->g.tensors.n; t++)
            if (graph_tensor_at(&k->g, t)->kind == WEFT_T_STATE)
                st = check_alike(b, graph_tensor_at(&k->g, t));
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static uint32_t source_of(plan_builder *b, const group *k, weft_tensor t)
{
    const graph_tensor *x = graph_tensor_at(&k->g, t);
    if (t == k->param)
        return RULE_PARAM;
    if (t == k->grad)
        return RULE_GRAD;
    if (t == k->copy)
        return RULE_COPY;
    return x->kind == WEFT_T_STATE ? RULE_STATE + plan_rule_state(b, x) : RULE_SCALAR;
}

/* A range of elements for one call of the rule: of an unsharded block, or the own slice of a group
 * of a sharded one. */
typedef struct range {
    uint64_t first, count;
    uint32_t group; /* 1 + the group; 0: unsharded */
    uint32_t axis;
    const char *name;
} range;

typedef struct finding {
    plan_builder *b;
    const group *k;
    const range *r;
} finding;

static bool find(void *ctx, weft_tensor t, plan_tensor_place *out)
{
    const finding *f = ctx;
    const uint32_t from = source_of(f->b, f->k, t);
    if (from == RULE_SCALAR)
        return false;
    const plan_flat_slice x = plan_rule_region(f->b, from, f->r->first, f->r->group, &out->dtype);
    out->at = x.at;
    out->shift = x.shift;
    out->axis = f->r->axis;
    return true;
}

/* The rule as several programs. */
static weft_status update_in_parts(plan_builder *b, plan_list *l, group *k, const range *r)
{
    finding f = {b, k, r};
    for (weft_tensor t = 1; t <= k->g.tensors.n; t++)
        if (graph_tensor_at(&k->g, t)->shape.rank)
            graph_tensor_at(&k->g, t)->shape.axes[0].size = (int64_t)r->count;
    return plan_graph_to_list(
        b, l,
        &(plan_to_list_work){
            &k->g, &k->g.nodes, {.name = r->name, .gate = k->gate, .find = find, .ctx = &f}});
}

/* Emit one call of the rule of `k` over a range. */
static weft_status update_range(plan_builder *b, plan_list *l, group *k, const range *r)
{
    weft_operand io[64];
    plan_ref refs[64];
    uint64_t bases[BASE_FIRST + 64] = {0}, shifts[BASE_FIRST + 64] = {0};
    uint32_t nbases = BASE_FIRST;
    graph_fused *f = &k->f;
    if (!graph_fused_fits(f) || BASE_FIRST + f->nin + f->nout > MAX_BASES)
        return update_in_parts(b, l, k, r);
    for (uint32_t i = 0; i < f->nin + f->nout; i++) {
        weft_tensor t = i < f->nin ? f->in[i] : f->out[i - f->nin];
        uint32_t from = source_of(b, k, t);
        if (from == RULE_SCALAR) {
            io[i] = (weft_operand){.dtype = WEFT_F32};
            refs[i] = (plan_ref){BASE_ABSOLUTE, 0,
                                 plan_scalar_offset(b->p, graph_tensor_at(&k->g, t)->name, 0)};
            continue;
        }
        plan_flat_slice x = plan_rule_region(b, from, r->first, r->group, &io[i].dtype);
        bases[nbases] = x.at;
        shifts[nbases] = x.shift;
        io[i] = (weft_operand){io[i].dtype, 1, 0, 0, {(int64_t)r->count}};
        refs[i] = (plan_ref){nbases++, 0, 0};
    }
    weft_opspec op = plan_program_spec(&f->program, f->nin, f->nout, io);
    weft_status st = plan_emit_op(
        b->p, l, &op,
        &(plan_emission){
            .segment = "update", .name = r->name, .refs = refs, .bases = bases, .nbases = nbases});
    if (st != WEFT_OK)
        return st;
    for (uint32_t i = BASE_FIRST; i < nbases; i++)
        plan_list_shift(b->p, l, i, r->axis, shifts[i]);
    return WEFT_OK;
}

static weft_status update(plan_builder *b, plan_list *l, const plan_rule_key *of, const range *r)
{
    const uint32_t kind = plan_rule_kind(b, of->interval, of->group);
    const uint32_t rest = of->flags & WEFT_PARAM_MATRIX ? 0 : 1;
    l->interval = of->interval;
    const weft_status st = update_range(b, l, &b->rule->update->groups[2 * kind + rest], r);
    l->interval = 0;
    return st;
}

static weft_status update_slices(plan_builder *b, plan_list *l, const plan_flat_block *k,
                                 const char *name)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = k->first_group; st == WEFT_OK && i < k->first_group + k->groups; i++) {
        const plan_flat_group *x = &b->f->groups.at[i];
        const range r = {x->at[0], x->count / k->parts, 1 + i, k->axis, name};
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
        const range r = {p->first, until - p->first, 0, 0, name};
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
