/* plan/edits/lists.c: the edit "periodic list": a plugin writes a graph over parameters and states.
 *
 * The nodes are moved out of the model's graph; optim/periodic.c turns them into a list. */
#include "plan/edits/emitters.h"

#include "base/err.h"
#include "graph/arguments.h"
#include "plan/scalar.h"

#include <string.h>

static bool name_taken(const plan_edit_state *e, const char *name)
{
    for (uint32_t i = 0; i < e->lists.n; i++)
        if (!strcmp(e->lists.at[i].name, name))
            return true;
    return !strcmp(name, "step") || !strcmp(name, "eval") || !strcmp(name, "save");
}

/* A list works on the fp32 masters. */
static void set_types(graph *g, uint32_t dtype)
{
    for (weft_tensor t = 1; t <= g->tensors.n; t++)
        if (graph_tensor_at(g, t)->kind == WEFT_T_PARAM)
            graph_tensor_at(g, t)->shape.dtype = dtype;
}

static weft_status periodic_list(plan_edit_state *e, const char *name, uint32_t every,
                                 weft_emit emit, void *user)
{
    graph *g = e->g;
    const uint32_t first = g->nodes.n;
    if (!every || name_taken(e, name))
        return err_fail(WEFT_USAGE, "list %s, every %u steps: %s", name, every,
                        every ? "the job already has a list with that name"
                              : "the number of steps must be at least 1");
    const graph_session outer = g->now;
    g->now.phase = PHASE_UPDATE;
    g->now.state_of = "";
    g->now.list_after = g->tensors.n;
    g->now.looking = NULL;
    weft_builder b = graph_builder(g);
    set_types(g, WEFT_F32);
    weft_status st = graph_check_return(emit(user, &b), ERR_OWNER, "the list", "emit");
    set_types(g, g->compute);
    g->now = outer;
    if (st != WEFT_OK) {
        err_context("list %s", name);
        return st;
    }
    plan_list_edit *x = vec_push(&e->lists);
    *x = (plan_list_edit){pool_text(e->pool, name), every, g->nodes.n - first, NULL};
    x->nodes = pool_copy(e->pool, g->nodes.at + first, x->n * sizeof *x->nodes);
    graph_forget_producers(g, x->nodes, x->n);
    g->nodes.n = first;
    const char *who = pool_printf(e->pool, "list %s", name);
    for (uint32_t i = 0; st == WEFT_OK && i < x->n; i++)
        if (plan_scalar_assigned(g, &x->nodes[i]))
            st = plan_scalar_check_target(g, &x->nodes[i], who);
    return st;
}

weft_status plan_edit_periodic_list(void *ctx, const char *name, uint32_t every, uint32_t flags,
                                    weft_emit emit, void *user)
{
    static const char call[] = "edits.periodic_list";
    weft_status st = plan_edit_begin(ctx, call, flags, WEFT_PHASE_SYNC);
    if (st == WEFT_OK)
        st = graph_check_name(call, "name", name);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "emit", (const void *)(uintptr_t)emit);
    return plan_edit_end(ctx, call,
                         st != WEFT_OK ? st : periodic_list(ctx, name, every, emit, user));
}
