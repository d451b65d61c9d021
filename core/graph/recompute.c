/* graph/recompute.c: recomputation: backward recomputes activations instead of keeping them.
 *
 * Activations are marked by name (graph_set_keep). After the backward pass has been derived and
 * placed:
 *
 *   1. A mark holds for a tensor of the forward pass that no other block reads: live-out tensors
 *      are kept, and recomputation starts from them. Blocks that add to a sum of the step (the
 *      loss) are skipped, since they would add twice.
 *   2. Backward nodes that read such a tensor need its producer, and a producer needs those of its
 *      inputs, until all inputs are kept: inputs of the block, parameters, unmarked tensors.
 *   3. Each producer is copied to just before the first backward node of its block that needs it,
 *      communication too, and the backward nodes read the copies.
 *
 * Other passes need no change: lowering classes tensors by their readers, so what only the forward
 * pass reads is freed with its frame. Copies have the kernels, inputs and placements of their
 * originals, so results are bit-identical. Cost: with every activation of a block marked, about one
 * more forward pass of it (a third of a step's work) for the memory saved; it loses where memory is
 * not short. */
#include "base/err.h"
#include "graph/graph.h"

#include <weft/strategy.h>

weft_status graph_set_keep(graph *g, const char *glob, uint32_t how, const char *owner)
{
    bool any = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        for (uint32_t k = 0; n->phase == PHASE_FORWARD && k < n->nout; k++) {
            graph_tensor *t = graph_tensor_at(g, n->out[k]);
            if (t->kind != WEFT_T_ACTIVATION || !graph_glob_match_tensor(glob, t))
                continue;
            any = true;
            if (t->keep_owner && t->keep != how)
                return err_fail(WEFT_USAGE,
                                "%s is to be stored in one mode by %s and in another by %s",
                                t->name, t->keep_owner, owner);
            t->keep = how;
            t->keep_owner = owner;
        }
    }
    return any ? WEFT_OK
               : err_fail(WEFT_USAGE, "no activation of the model has a name like '%s'", glob);
}

typedef struct remaking {
    graph *g;
    bool *recomputed;    /* [tensor] step 1 */
    uint32_t *phase;     /* [node] of its copy; 0: none is needed */
    weft_tensor *copies; /* [tensor] 0: not yet made */
    graph_nodes nodes;   /* the graph as it will be */
} remaking;

/* Step 1. Returns whether any mark holds. */
static bool find_marked(remaking *r)
{
    graph *g = r->g;
    bool any = false, *left_alone = pool_array(&g->pool, g->blocks.n, sizeof *left_alone);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i].nout; k++)
            if (g->nodes.at[i].phase == PHASE_FORWARD &&
                graph_tensor_at(g, g->nodes.at[i].out[k])->sum)
                left_alone[g->nodes.at[i].block] = true;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        for (uint32_t k = 0; n->phase == PHASE_FORWARD && k < n->nout; k++)
            r->recomputed[n->out[k]] =
                !left_alone[n->block] &&
                graph_tensor_at(g, n->out[k])->keep == WEFT_ACTIVATION_RECOMPUTE;
    }
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i].nin; k++) {
            weft_tensor t = g->nodes.at[i].in[k];
            uint32_t maker = graph_tensor_at(g, t)->producer;
            if (r->recomputed[t] && g->nodes.at[maker - 1].block != g->nodes.at[i].block)
                r->recomputed[t] = false;
        }
    for (weft_tensor t = 1; t <= g->tensors.n; t++)
        any |= r->recomputed[t];
    return any;
}

/* Marks the producers of what node `n` reads as needed in `phase`, or earlier. */
static void need(remaking *r, const graph_node *n, uint32_t phase)
{
    for (uint32_t k = 0; k < n->nin; k++) {
        if (!r->recomputed[n->in[k]] || graph_node_shape_only(n, k))
            continue;
        uint32_t *p = &r->phase[graph_tensor_at(r->g, n->in[k])->producer - 1];
        *p = *p && *p < phase ? *p : phase;
    }
}

/* Step 2. Producers precede their readers, so one walk from the end finds all. */
static void find_makers(remaking *r)
{
    for (uint32_t i = r->g->nodes.n; i-- > 0;) {
        const graph_node *n = &r->g->nodes.at[i];
        if (n->phase != PHASE_FORWARD)
            need(r, n, n->phase);
        else if (r->phase[i])
            need(r, n, r->phase[i]);
    }
}

static weft_tensor copy_tensor(graph *g, weft_tensor t)
{
    graph_tensor *x = vec_push(&g->tensors);
    *x = *graph_tensor_at(g, t);
    x->name = pool_printf(&g->pool, "%s.again", x->name);
    x->keep = 0;
    x->keep_owner = NULL;
    return g->tensors.n;
}

/* Makes node `n`, which is about to be appended, read copies, and appends their producers before
 * it. Recursive: as deep as a block is long. */
static void read_copies(remaking *r, graph_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++) {
        weft_tensor t = n->in[k];
        if (!r->recomputed[t] || graph_node_shape_only(n, k))
            continue;
        if (!r->copies[t]) {
            uint32_t maker = graph_tensor_at(r->g, t)->producer - 1;
            graph_node made = r->g->nodes.at[maker];
            made.in = pool_copy(&r->g->pool, made.in, made.nin * sizeof *made.in);
            made.out = pool_copy(&r->g->pool, made.out, made.nout * sizeof *made.out);
            for (uint32_t i = 0; i < made.nout; i++)
                made.out[i] = r->copies[made.out[i]] = copy_tensor(r->g, made.out[i]);
            made.phase = r->phase[maker];
            made.recomputed = true;
            read_copies(r, &made);
            *vec_push(&r->nodes) = made;
        }
        n->in[k] = r->copies[t];
    }
}

/* Step 3. */
static void rebuild(remaking *r)
{
    graph *g = r->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        graph_node n = g->nodes.at[i];
        if (n.phase != PHASE_FORWARD)
            read_copies(r, &n);
        *vec_push(&r->nodes) = n;
    }
    graph_take_nodes(g, &r->nodes);
}

void graph_recompute(graph *g)
{
    const uint32_t tensors = g->tensors.n + 1;
    remaking r = {.g = g,
                  .recomputed = pool_array(&g->pool, tensors, sizeof *r.recomputed),
                  .copies = pool_array(&g->pool, tensors, sizeof *r.copies),
                  .phase = pool_array(&g->pool, g->nodes.n, sizeof *r.phase)};
    if (find_marked(&r)) {
        find_makers(&r);
        rebuild(&r);
    }
}
