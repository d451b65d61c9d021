/* plan/optim/update_each.c: update rules that need a whole parameter: one update per parameter.
 *
 * The rule is built once for parameters of equal shape, flags, role and placement, its placements
 * are propagated as in a model, and it is written into the list for each of them (graph_to_list.c).
 * The norm of a parameter that tensor parallelism splits is completed over its mesh axis. A
 * parameter that a placement shards is a group of its own, and slices.c decides what is computed on
 * slices.
 *
 * Each parameter has the states that its graph declares, with memory of their own. */
#include "plan/optim/optim.h"

#include "base/err.h"
#include "plan/lower/walk.h"
#include "plan/optim/rule.h"
#include "plan/optim/slices.h"

#include <stdlib.h>
#include <string.h>

typedef struct param_class { /* parameters that share a graph */
    plan_rule_update u;
    weft_shape shape;
    weft_place place[WEFT_MAX_MESH];
    plan_slices how; /* count 0: whole */
    plan_rule_key of;
    weft_tensor *states; /* [nstates] */
    uint32_t nstates;
} param_class;

struct each_state {
    VEC(param_class *) classes;
    param_class **of; /* [flat param] */
    uint32_t *states; /* [flat param] its first plan_own_state */
};

static void describe(const plan_builder *b, const plan_flat_param *p, param_class *out)
{
    const plan_flat_block *k = &b->f->blocks.at[p->block];
    *out = (param_class){.of = {p->role, p->flags, p->interval, p->rule_group}, .shape = p->whole};
    out->shape.dtype = WEFT_F32;
    memcpy(out->place, p->place, sizeof out->place);
    if (k->level)
        out->how = (plan_slices){k->axis, k->parts, b->f->groups.at[p->group].count};
}

static bool same_kind(const plan_rule_key *a, const plan_rule_key *b)
{
    return a->flags == b->flags && a->interval == b->interval && a->group == b->group &&
           (a->role && b->role ? !strcmp(a->role, b->role) : !a->role && !b->role);
}

/* A state is split where its parameter's axis of the same name is. Only the first axis of several
 * elements may be split unevenly, so that padding comes last in memory. */
static weft_status place_state(const param_class *k, graph_tensor *x)
{
    const graph_mesh *m = k->u.g.mesh;
    for (uint32_t a = 0; a < m->n; a++) {
        x->place[a] = k->place[a].kind == WEFT_SPLIT ? (weft_place){0} : k->place[a];
        for (uint32_t i = 0; k->place[a].kind == WEFT_SPLIT && i < x->shape.rank; i++)
            if (x->follows[i] == k->place[a].axis + 1)
                x->place[a] = (weft_place){WEFT_SPLIT, i, 0, 0};
    }
    int64_t left[WEFT_MAX_AXES];
    for (uint32_t i = 0; i < x->shape.rank; i++)
        left[i] = x->shape.axes[i].size;
    for (uint32_t a = 0; a < m->n; a++) {
        const uint32_t i = x->place[a].axis;
        int64_t before = 1;
        if (x->place[a].kind != WEFT_SPLIT)
            continue;
        for (uint32_t n = 0; n < i; n++)
            before *= left[n];
        if (before > 1 && left[i] % m->size[a])
            return err_fail(WEFT_UNSUPPORTED,
                            "the state %s has the axis '%s', which %s = %u does not divide, behind "
                            "another one: declare it first",
                            x->name, x->shape.axes[i].name, m->name[a], m->size[a]);
        left[i] /= m->size[a];
    }
    return WEFT_OK;
}

/* Change the graph into one over slices. */
static weft_status slice(param_class *k)
{
    bool *sliced = pool_array(&k->u.g.pool, k->u.g.tensors.n + 1, sizeof *sliced);
    for (weft_tensor t = 1; t <= k->u.g.tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(&k->u.g, t);
        sliced[t] = plan_rule_source(&k->u, t) != RULE_SCALAR ||
                    (x->kind == WEFT_T_STATE && x->full && x->shape.rank);
    }
    return plan_slices_apply(&k->u.g, k->u.param, &k->how, sliced);
}

static weft_status make(plan_builder *b, param_class *k)
{
    weft_status st = plan_rule_graph(b, &k->of, &k->shape, k->place, &k->u);
    k->states = pool_array(&k->u.g.pool, k->u.g.tensors.n, sizeof *k->states);
    for (weft_tensor t = 1; st == WEFT_OK && t <= k->u.g.tensors.n; t++) {
        graph_tensor *x = graph_tensor_at(&k->u.g, t);
        if (x->kind != WEFT_T_STATE)
            continue;
        k->states[k->nstates++] = t;
        st = place_state(k, x);
    }
    if (st == WEFT_OK)
        st = graph_propagate(&k->u.g, 0);
    return st == WEFT_OK && k->how.count ? slice(k) : st;
}

/* Add the states of parameter `i`; slice() has changed the shapes of those that are sliced. */
static void add_states(plan_builder *b, const param_class *k, uint32_t i)
{
    pool *p = &b->p->pool;
    b->rule->each->states[i] = b->f->own_states.n;
    for (uint32_t n = 0; n < k->nstates; n++) {
        const graph_tensor *x = graph_tensor_at(&k->u.g, k->states[n]);
        plan_own_state *s = vec_push(&b->f->own_states);
        *s = (plan_own_state){.name = pool_text(p, plan_rule_suffix(x)),
                              .init = x->init ? pool_text(p, x->init) : NULL,
                              .param = i,
                              .sliced = k->how.count && x->full && x->shape.rank,
                              .whole = x->shape,
                              .elements = graph_local_elements(&k->u.g, k->states[n])};
        memcpy(s->place, x->place, sizeof s->place);
        if (s->sliced) {
            s->whole = k->shape;
            s->whole.dtype = x->shape.dtype;
            memcpy(s->place, k->place, sizeof s->place);
        }
        for (uint32_t a = 0; a < s->whole.rank; a++)
            s->whole.axes[a].name = pool_text(p, s->whole.axes[a].name);
    }
}

weft_status plan_each_prepare(plan_builder *b)
{
    struct each_state *e = pool_alloc(&b->p->pool, sizeof *e);
    b->rule->each = e;
    e->of = pool_array(&b->p->pool, b->f->params.n, sizeof *e->of);
    e->states = pool_array(&b->p->pool, b->f->params.n, sizeof *e->states);
    for (uint32_t i = 0; i < b->f->params.n; i++) {
        const plan_flat_param *p = &b->f->params.at[i];
        param_class like;
        describe(b, p, &like);
        for (uint32_t k = 0; k < e->classes.n && !e->of[i]; k++) {
            param_class *x = e->classes.at[k];
            if (same_kind(&x->of, &like.of) && graph_same_axes(&x->shape, &like.shape) &&
                !memcmp(x->place, like.place, sizeof like.place) &&
                !memcmp(&x->how, &like.how, sizeof like.how))
                e->of[i] = x;
        }
        weft_status st = WEFT_OK;
        if (!e->of[i]) {
            param_class *fresh = pool_alloc(&b->p->pool, sizeof *fresh);
            *fresh = like;
            *vec_push(&e->classes) = e->of[i] = fresh;
            st = make(b, fresh);
        }
        if (st != WEFT_OK) {
            err_context("update of %s", p->name);
            return st;
        }
        add_states(b, e->of[i], i);
    }
    return WEFT_OK;
}

typedef struct finding {
    plan_builder *b;
    const param_class *k;
    const plan_flat_param *p;
} finding;

static bool find_own_state(const finding *f, weft_tensor t, plan_tensor_place *out)
{
    const plan_flat *all = f->b->f;
    const uint32_t param = (uint32_t)(f->p - all->params.at);
    for (uint32_t i = 0; i < f->k->nstates; i++) {
        const plan_own_state *s = &all->own_states.at[f->b->rule->each->states[param] + i];
        if (f->k->states[i] == t)
            *out = (plan_tensor_place){.at = s->offset, .dtype = s->whole.dtype};
    }
    return true;
}

static bool find(void *ctx, weft_tensor t, plan_tensor_place *out)
{
    const finding *f = ctx;
    const uint32_t from = plan_rule_source(&f->k->u, t);
    if (graph_tensor_at(&f->k->u.g, t)->kind == WEFT_T_STATE)
        return find_own_state(f, t, out);
    const bool sharded = f->b->f->blocks.at[f->p->block].level;
    if (from != RULE_SCALAR)
        *out = plan_rule_place(f->b, from, f->p->first, sharded ? 1 + f->p->group : 0);
    return from != RULE_SCALAR;
}

weft_status plan_each_updates(plan_builder *b, plan_list *l)
{
    const uint32_t n = b->f->params.n;
    plan_to_list_work *w = pool_array(&b->g->pool, n, sizeof *w);
    finding *f = pool_array(&b->g->pool, n, sizeof *f);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < n; i++) { /* in reverse order */
        const plan_flat_param *p = &b->f->params.at[n - 1 - i];
        param_class *k = b->rule->each->of[n - 1 - i];
        f[i] = (finding){b, k, p};
        w[i] = (plan_to_list_work){&k->u.g,
                                   &k->u.g.nodes,
                                   {.name = pool_printf(&b->p->pool, "update %s", p->name),
                                    .gate = k->u.gate,
                                    .find = find,
                                    .ctx = &f[i],
                                    .param = p->name}};
    }
    for (uint32_t i = 0, done; st == WEFT_OK && i < n; i += done) {
        uint32_t alike = 1;
        while (i + alike < n && f[i + alike].p->interval == f[i].p->interval)
            alike++;
        l->interval = f[i].p->interval;
        st = plan_graphs_to_list(b, l, w + i, alike, &done);
        l->interval = 0;
        for (uint32_t k = i; st == WEFT_OK && k < i + done; k++)
            if (b->f->blocks.at[f[k].p->block].level)
                st = plan_zero_updated(b, l, f[k].p->group);
    }
    return st;
}

void plan_each_free(plan_builder *b)
{
    for (uint32_t i = 0; b->rule->each && i < b->rule->each->classes.n; i++)
        graph_free(&b->rule->each->classes.at[i]->u.g);
    if (b->rule->each)
        free(b->rule->each->classes.at);
}
