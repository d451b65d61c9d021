/* plan/optim/update_each.c: update rules that need a whole parameter: one update per parameter.
 *
 * The rule is built once for parameters of equal shape, flags and placement, its placements are
 * propagated as in a model, and it is written into the list for each of them (graph_to_list.c). The
 * norm of a parameter that tensor parallelism splits is completed over its mesh axis, and so is
 * that of a sharded one. A sharded parameter is a group of its own and appears flat, [elements],
 * each coordinate with its slice; padding stays zero under rules that map zeros to zero. */
#include "plan/optim/optim.h"

#include "base/err.h"
#include "plan/lower/zero_schedule.h"
#include "plan/optim/graph_to_list.h"
#include "plan/optim/rule.h"

#include <stdlib.h>
#include <string.h>

typedef struct kin { /* parameters that share a graph */
    graph g;
    weft_tensor param, grad, copy, gate;
    weft_shape shape;
    weft_place place[WEFT_MAX_MESH];
    uint32_t flags, end;
} kin;

struct each_state {
    VEC(kin *) kins;
    kin **of; /* [flat param] */
};

/* The shape that the rule sees: the parameter's axes, or flat if it is sharded. */
static void shape_of(const builder *b, const flat_param *p, weft_shape *shape, weft_place *place)
{
    const flat_block *k = &b->f->blocks.at[p->block];
    memcpy(place, p->place, WEFT_MAX_MESH * sizeof *place);
    *shape = p->whole;
    shape->dtype = WEFT_F32;
    if (!k->level)
        return;
    int64_t n = (int64_t)b->f->groups.at[p->group].count;
    for (uint32_t a = 0; a < b->g->mesh->n; a++)
        if (p->place[a].kind == WEFT_SPLIT) {
            n *= b->g->mesh->size[a];
            place[a].axis = 0;
        }
    place[k->axis] = (weft_place){WEFT_SPLIT, 0, 0, 0};
    *shape = (weft_shape){.dtype = WEFT_F32, .rank = 1, .axes = {{"elements", n}}};
}

static bool same_shape(const weft_shape *a, const weft_shape *b)
{
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->axes[i].size == b->axes[i].size && !strcmp(a->axes[i].name, b->axes[i].name);
    return same;
}

static weft_tensor add(kin *k, const char *name, uint32_t kind)
{
    weft_tensor t = graph_add(&k->g, name, kind, &k->shape);
    memcpy(graph_tensor(&k->g, t)->place, k->place, sizeof k->place);
    return t;
}

static weft_status make(builder *b, kin *k)
{
    graph_init(&k->g, b->g->mesh, WEFT_F32, WEFT_F32);
    k->g.find = b->g->find;
    k->g.find_ctx = b->g->find_ctx;
    k->param = add(k, "p", WEFT_T_PARAM);
    k->grad = add(k, "g", WEFT_T_ACTIVATION);
    if (b->f->compute != b->f->master)
        k->copy = add(k, "copy", WEFT_T_PARAM);
    weft_status st = plan_rule_graph(b, &k->g, k->param, k->grad, k->copy, k->flags, &k->gate);
    for (weft_tensor t = 1; st == WEFT_OK && t <= k->g.tensors.n; t++) {
        tensor *x = graph_tensor(&k->g, t);
        if (x->kind != WEFT_T_STATE)
            continue;
        memcpy(x->place, k->place, sizeof k->place);
        plan_rule_state(b, x->name);
    }
    k->end = k->g.nodes.n;
    return st != WEFT_OK ? st : graph_propagate(&k->g, 0, &k->end);
}

weft_status plan_each_prepare(builder *b)
{
    struct each_state *e = pool_alloc(&b->p->pool, sizeof *e);
    b->rule->each = e;
    e->of = pool_array(&b->p->pool, b->f->params.n, sizeof *e->of);
    for (uint32_t i = 0; i < b->f->params.n; i++) {
        const flat_param *p = &b->f->params.at[i];
        kin like = {.flags = p->flags};
        shape_of(b, p, &like.shape, like.place);
        for (uint32_t k = 0; k < e->kins.n && !e->of[i]; k++) {
            kin *x = e->kins.at[k];
            if (x->flags == like.flags && same_shape(&x->shape, &like.shape) &&
                !memcmp(x->place, like.place, sizeof like.place))
                e->of[i] = x;
        }
        if (e->of[i])
            continue;
        kin *fresh = mem_alloc(sizeof *fresh);
        *fresh = like;
        *vec_push(&e->kins) = e->of[i] = fresh;
        weft_status st = make(b, fresh);
        if (st != WEFT_OK) {
            err_context("update of %s", p->name);
            return st;
        }
    }
    return WEFT_OK;
}

typedef struct finding {
    builder *b;
    const kin *k;
    const flat_param *p;
} finding;

static bool find(void *ctx, weft_tensor t, tensor_place *out)
{
    const finding *f = ctx;
    const tensor *x = graph_tensor(&f->k->g, t);
    uint32_t from;
    if (t == f->k->param)
        from = RULE_PARAM;
    else if (t == f->k->grad)
        from = RULE_GRAD;
    else if (t == f->k->copy)
        from = RULE_COPY;
    else if (x->kind == WEFT_T_STATE)
        from = RULE_STATE + plan_rule_state(f->b, x->name);
    else
        return false;
    const flat_block *k = &f->b->f->blocks.at[f->p->block];
    flat_place_in at =
        plan_rule_region(f->b, from, f->p->first, k->level ? 1 + f->p->group : 0, &out->dtype);
    out->at = at.at;
    out->shift = at.shift;
    out->axis = k->axis;
    return true;
}

weft_status plan_each_updates(builder *b, list *l)
{
    const uint32_t n = b->f->params.n;
    graph_to_list_work *w = mem_alloc(n * sizeof *w + 1);
    finding *f = mem_alloc(n * sizeof *f + 1);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < n; i++) { /* in reverse order */
        const flat_param *p = &b->f->params.at[n - 1 - i];
        kin *k = b->rule->each->of[n - 1 - i];
        f[i] = (finding){b, k, p};
        w[i] = (graph_to_list_work){
            &k->g,
            0,
            k->end,
            {pool_printf(&b->p->pool, "update %s", p->name), k->gate, find, &f[i]}};
    }
    for (uint32_t i = 0, done; st == WEFT_OK && i < n; i += done) {
        st = plan_graphs_to_list(b, l, w + i, n - i, &done);
        for (uint32_t k = i; st == WEFT_OK && k < i + done; k++)
            if (b->f->blocks.at[f[k].p->block].level)
                st = plan_zero_updated(b, l, f[k].p->group);
    }
    free(w);
    free(f);
    return st;
}

void plan_each_free(builder *b)
{
    for (uint32_t i = 0; b->rule->each && i < b->rule->each->kins.n; i++) {
        graph_free(&b->rule->each->kins.at[i]->g);
        free(b->rule->each->kins.at[i]);
    }
    if (b->rule->each)
        free(b->rule->each->kins.at);
}
