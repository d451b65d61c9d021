/* plan/optim/periodic.c: lists of plugins that run every N steps.
 *
 * A plugin writes a graph over parameters, states and scalars; here it is taken out of the model's
 * graph, its placements are propagated, and it is written into its own list (graph_to_list.c). A
 * stage skips nodes of parameters that it does not have. Assigning a parameter also assigns its
 * compute copy. */
#include "plan/optim/optim.h"

#include "base/err.h"
#include "plan/optim/rule.h"
#include "plan/scalar.h"

#include <stdlib.h>
#include <string.h>

static const char *suffix_of(const graph *g, const graph_tensor *state)
{
    return state->name + strlen(graph_tensor_at(g, state->of)->name) + 1;
}

static bool is_of_rule(const plan_flat *f, const char *suffix)
{
    for (uint32_t i = 0; i < f->own_states.n; i++)
        if (!strcmp(f->own_states.at[i].name, suffix))
            return true;
    return false;
}

weft_status plan_periodic_states(plan_builder *b)
{
    const uint32_t of_rule = b->f->states.n;
    for (weft_tensor t = 1; b->edits->lists.n && t <= b->g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(b->g, t);
        if (x->kind != WEFT_T_STATE)
            continue;
        const char *suffix = suffix_of(b->g, x);
        const int have = plan_flat_state_of(b->f, suffix);
        if ((have >= 0 && (uint32_t)have < of_rule) || is_of_rule(b->f, suffix))
            return err_fail(WEFT_USAGE,
                            "a periodic list declares the state '%s', and so does the update rule",
                            suffix);
        if (!plan_flat_state_add(b->f, &b->p->pool, suffix, x))
            return err_fail(WEFT_USAGE,
                            "%s: periodic lists declare the state '%s' with different types or "
                            "initial values",
                            x->name, suffix);
    }
    return WEFT_OK;
}

/* --- one list --- */

static const plan_flat_param *param_of(const plan_builder *b, weft_tensor t)
{
    const graph_tensor *x = graph_tensor_at(b->g, t);
    bool named = x->kind == WEFT_T_STATE || (x->kind == WEFT_T_PARAM && x->of);
    return plan_flat_find(b->f, graph_tensor_at(b->g, named ? x->of : t)->name);
}

static bool find(void *ctx, weft_tensor t, plan_tensor_place *out)
{
    const plan_builder *b = ctx;
    const graph_tensor *x = graph_tensor_at(b->g, t);
    uint32_t from = x->of ? RULE_COPY : RULE_PARAM;
    if (x->kind != WEFT_T_PARAM && x->kind != WEFT_T_STATE)
        return false;
    if (x->kind == WEFT_T_STATE)
        from = RULE_STATE + (uint32_t)plan_flat_state_of(b->f, suffix_of(b->g, x));
    *out = plan_rule_place(b, from, param_of(b, t)->first, 0);
    return true;
}

/* Take the nodes of parameters on this stage; skip the others. */
static weft_status take_nodes(plan_builder *b, const plan_list_edit *x)
{
    graph *g = b->g;
    bool *elsewhere = /* [tensor] of a parameter that this stage does not have */
        pool_array(&g->pool, g->tensors.n + 1, sizeof *elsewhere);
    for (uint32_t i = 0; i < x->n; i++) {
        const graph_node *n = &x->nodes[i];
        bool away = false;
        for (uint32_t k = 0; k < n->nin + n->nout; k++) {
            weft_tensor t = k < n->nin ? n->in[k] : n->out[k - n->nin];
            const uint32_t kind = graph_tensor_at(g, t)->kind;
            const plan_flat_param *p =
                kind == WEFT_T_PARAM || kind == WEFT_T_STATE ? param_of(b, t) : NULL;
            if (p && b->f->blocks.at[p->block].level)
                return err_fail(WEFT_UNSUPPORTED,
                                "periodic list %s works on %s, which a placement shards: set "
                                "optim.placement = none",
                                x->name, p->name);
            away |= (kind == WEFT_T_PARAM || kind == WEFT_T_STATE) && !p;
            away |= kind == WEFT_T_ACTIVATION && elsewhere[t];
        }
        if (away && plan_scalar_assigned(g, n))
            return err_fail(
                WEFT_UNSUPPORTED,
                "list %s: assign() to the scalar '%s' a value made of parameters that one "
                "stage of the model has and another has not",
                x->name, graph_tensor_at(g, n->out[0])->name);
        for (uint32_t k = 0; k < n->nout; k++)
            elsewhere[n->out[k]] |= away && !n->assign;
        if (!away)
            *vec_push(&g->nodes) = *n;
    }
    return WEFT_OK;
}

static weft_status assign_copies(plan_builder *b)
{
    graph *g = b->g;
    const uint32_t n = g->nodes.n;
    for (uint32_t i = 0; i < n && b->f->compute != b->f->master; i++) {
        const graph_node x = g->nodes.at[i];
        if (!x.assign || graph_tensor_at(g, x.out[0])->kind != WEFT_T_PARAM)
            continue;
        const graph_tensor was = *graph_tensor_at(g, x.out[0]);
        weft_tensor copy =
            graph_add(g, pool_printf(&g->pool, "copy of %s", was.name), WEFT_T_PARAM, &was.shape);
        graph_tensor_at(g, copy)->of = x.out[0];
        memcpy(graph_tensor_at(g, copy)->place, was.place, sizeof was.place);
        weft_builder w = graph_builder(g);
        weft_status st = w.assign(w.ctx, copy, x.in[0], 0);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

static weft_status make_list(plan_builder *b, const plan_list_edit *x, plan_list *l)
{
    graph *g = b->g; /* the model's tensors, the list's nodes */
    const graph_nodes of_model = g->nodes;
    const uint64_t along = g->along;
    g->nodes = (graph_nodes){0};
    weft_status st = take_nodes(b, x);
    if (st == WEFT_OK)
        st = assign_copies(b);
    for (uint32_t i = 0; st == WEFT_OK && i < g->nodes.n; i++)
        if (plan_scalar_assigned(g, &g->nodes.at[i]))
            plan_scalar_save(b->p, graph_tensor_at(g, g->nodes.at[i].out[0])->name,
                             SCALAR_OF_PLUGIN);
    graph_number_producers(g, 0);
    if (st == WEFT_OK) {
        st = graph_propagate(g, 0);
        if (st != WEFT_OK)
            err_context("list %s", x->name);
    }
    const plan_to_list_work work = {
        g,
        &g->nodes,
        {.name = pool_printf(&b->p->pool, "list %s", x->name), .find = find, .ctx = b}};
    if (st == WEFT_OK)
        st = plan_graph_to_list(b, l, &work);
    graph_forget_producers(g, g->nodes.at, g->nodes.n);
    free(g->nodes.at);
    g->nodes = of_model;
    g->along = along;
    return st;
}

/* A parameter whose gradient is not summed over an axis differs between its coordinates: the list
 * sees it as partial. */
static void part_ways(plan_builder *b)
{
    for (uint32_t i = 0; i < b->f->params.n; i++)
        for (uint32_t a = 0; a < b->g->mesh->n; a++)
            if (b->f->params.at[i].never_axes >> a & 1)
                graph_tensor_at(b->g, graph_find(b->g, b->f->params.at[i].name))->place[a] =
                    (weft_place){WEFT_PARTIAL_SUM, 0, 0, 0};
}

/* A state of a list has the axes of its parameter, and is split where it is. Where the coordinates
 * have parameters of their own the state is one tensor all the same. */
static void place_states(const graph *g)
{
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        graph_tensor *x = graph_tensor_at(g, t);
        for (uint32_t a = 0; x->kind == WEFT_T_STATE && a < g->mesh->n; a++)
            if (graph_tensor_at(g, x->of)->place[a].kind == WEFT_SPLIT)
                x->place[a] = graph_tensor_at(g, x->of)->place[a];
    }
}

weft_status plan_periodic_lists(plan_builder *b)
{
    const plan_edit_state *e = b->edits;
    weft_status st = WEFT_OK;
    if (e->lists.n) {
        part_ways(b);
        place_states(b->g);
    }
    for (uint32_t i = 0; st == WEFT_OK && i < e->lists.n; i++) {
        plan_periodic_list *x = vec_push(&b->p->extra);
        *x = (plan_periodic_list){.every = e->lists.at[i].every};
        x->l.name = e->lists.at[i].name;
        st = make_list(b, &e->lists.at[i], &x->l);
    }
    return st;
}
