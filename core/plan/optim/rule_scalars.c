/* plan/optim/rule_scalars.c: scalars that an update rule assigns.
 *
 * A rule's graph runs once per range of elements or per parameter, and their number on a rank
 * depends on the layout. A scalar is assigned once per step. So the assignments to scalars are
 * taken out of the graph, and the nodes that compute their values become one scalar program, which
 * runs after all updates: every update reads the value of the previous step. All graphs of the rule
 * must assign the same, and a value may depend on scalars only, because only those are the same in
 * every call and on every rank.
 *
 * These scalars are saved in checkpoints. A program that is too long runs as several (runs.c). */
#include "plan/optim/rule.h"

#include "base/err.h"
#include "plan/scalar.h"

#include <string.h>

struct rule_scalars {
    graph_fused f; /* of the first graph; nout 0: the rule assigns none */
    const char *in[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OPERANDS];
    graph *g;          /* the tensors */
    graph_nodes nodes; /* memory of its pool */
    weft_tensor gate;
};

/* Move the assignments to scalars out of the graph. */
static graph_nodes take_out(graph *g)
{
    graph_nodes taken = {.at = pool_array(&g->pool, g->nodes.n, sizeof *taken.at)};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node n = g->nodes.at[i];
        if (plan_scalar_assigned(g, &n))
            taken.at[taken.n++] = n;
        else
            g->nodes.at[kept++] = n;
    }
    g->nodes.n = kept;
    graph_number_producers(g, 0);
    return taken;
}

/* Find the tensors on which the assigned values depend [1 + tensors], and the nodes that compute
 * them. */
static void find_makers(const graph *g, const graph_nodes *taken, bool *part_of, bool *makes)
{
    for (uint32_t i = 0; i < taken->n; i++)
        part_of[taken->at[i].in[0]] = true;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const graph_node *n = &g->nodes.at[i];
        for (uint32_t k = 0; k < n->nout && !n->assign; k++)
            makes[i] |= part_of[n->out[k]];
        for (uint32_t k = 0; k < n->nin && makes[i]; k++)
            part_of[n->in[k]] = true;
    }
}

static weft_status check_parts(const graph *g, const graph_nodes *taken, const bool *part_of,
                               const char *who)
{
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(g, t);
        const graph_node *by = x->producer ? &g->nodes.at[x->producer - 1] : NULL;
        const bool joint = by && (!by->op || !(by->op->flags & WEFT_OP_ELEMENTWISE));
        if (part_of[t] && (x->shape.rank || joint))
            return err_fail(
                WEFT_USAGE,
                "%s: assign() to the scalar '%s' a value made of %s; a scalar is assigned "
                "once a step, so its value may be made of scalars alone",
                who, graph_tensor_at(g, taken->at[0].out[0])->name, x->name);
    }
    return WEFT_OK;
}

/* Add the nodes that compute the assigned values, and the assignments, to `out`. */
static weft_status add_nodes(graph *g, const graph_nodes *taken, graph_nodes *out, const char *who)
{
    bool *part_of = pool_array(&g->pool, g->tensors.n + 1, sizeof *part_of);
    bool *makes = pool_array(&g->pool, g->nodes.n, sizeof *makes);
    find_makers(g, taken, part_of, makes);
    out->at = pool_array(&g->pool, g->nodes.n + taken->n, sizeof *out->at);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (makes[i])
            out->at[out->n++] = g->nodes.at[i];
    for (uint32_t i = 0; i < taken->n; i++)
        out->at[out->n++] = taken->at[i];
    return check_parts(g, taken, part_of, who);
}

static bool same(const struct rule_scalars *a, const struct rule_scalars *b)
{
    const weft_ew_program *x = &a->f.program, *y = &b->f.program;
    bool like = a->f.nin == b->f.nin && a->f.nout == b->f.nout && x->nsteps == y->nsteps &&
                x->gate == y->gate &&
                (!x->nsteps || !memcmp(x->steps, y->steps, x->nsteps * sizeof *x->steps));
    for (uint32_t i = 0; like && i < a->f.nin; i++)
        like = !strcmp(a->in[i], b->in[i]);
    for (uint32_t i = 0; like && i < a->f.nout; i++)
        like = !strcmp(a->out[i], b->out[i]) && x->out_reg[i] == y->out_reg[i];
    return like;
}

static weft_status check_targets(const graph *g, const graph_nodes *taken, const char *who)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < taken->n; i++) {
        st = plan_scalar_check_target(g, &taken->at[i], who);
        for (uint32_t k = 0; st == WEFT_OK && k < i; k++)
            if (taken->at[i].out[0] == taken->at[k].out[0])
                st = err_fail(WEFT_USAGE, "%s: assign() to the scalar '%s' twice", who,
                              graph_tensor_at(g, taken->at[i].out[0])->name);
    }
    return st;
}

/* Make the program of the graph's assignments to scalars. */
static weft_status make_program(graph *g, weft_tensor gate, const char *who,
                                struct rule_scalars *out)
{
    const graph_nodes taken = take_out(g);
    *out = (struct rule_scalars){.g = g, .gate = gate};
    weft_status st = check_targets(g, &taken, who);
    if (st == WEFT_OK && taken.n)
        st = add_nodes(g, &taken, &out->nodes, who);
    if (st == WEFT_OK && taken.n)
        st = graph_fuse(g, &out->nodes, gate, NULL, &g->pool, &out->f);
    for (uint32_t i = 0; st == WEFT_OK && i < out->f.nin; i++)
        out->in[i] = graph_tensor_at(g, out->f.in[i])->name;
    for (uint32_t i = 0; st == WEFT_OK && i < out->f.nout; i++)
        out->out[i] = graph_tensor_at(g, out->f.out[i])->name;
    return st;
}

weft_status plan_rule_scalars_take(plan_builder *b, graph *g, weft_tensor gate,
                                   const plan_interval *some)
{
    struct rule_scalars *mine = pool_alloc(&b->p->pool, sizeof *mine);
    const char *who = pool_printf(&b->p->pool, "update() of the rule %s", b->p->spec->rule.c->name);
    weft_status st = make_program(g, gate, who, mine);
    if (st == WEFT_OK && some && mine->f.nout)
        st = err_fail(WEFT_UNSUPPORTED,
                      "%s assigns the scalar '%s' once a step, and %s updates parameters in other "
                      "steps only: choose another rule or leave out %s",
                      who, mine->out[0], some->owner, some->owner);
    if (st == WEFT_OK && some)
        return WEFT_OK;
    if (st == WEFT_OK && !b->rule->rule_scalars)
        b->rule->rule_scalars = mine;
    else if (st == WEFT_OK && !same(b->rule->rule_scalars, mine))
        st = err_fail(
            WEFT_USAGE,
            "%s: assign() to scalars differs from one parameter to another (flags or shape); "
            "a scalar is assigned once a step, so all have to assign it alike",
            who);
    return st;
}

weft_status plan_rule_scalars_assign(plan_builder *b, plan_list *l)
{
    const struct rule_scalars *x = b->rule->rule_scalars;
    if (!x || !x->f.nout)
        return WEFT_OK;
    const plan_to_list_work work = {
        x->g, &x->nodes, {.name = "scalars of the rule", .gate = x->gate, .absolute = true}};
    const weft_status st = plan_graph_to_list(b, l, &work);
    for (uint32_t i = 0; i < x->f.nout; i++)
        plan_scalar_save(b->p, x->out[i], SCALAR_OF_PLUGIN);
    return st;
}
