/* graph/replace.c: replacement of an op by other ops.
 *
 * What a replacement builds is appended, so that handles and numbers that a strategy has read stay
 * valid; graph_apply_replacements() moves it to the position of the replaced op. A tensor assigned
 * to an output of the replaced op takes over that output's handle and name, so its readers are
 * unchanged.
 *
 * What only replaced ops have read is not computed any more, nor what only that has read;
 * parameters among it are removed. */
#include "base/err.h"
#include "graph/arguments.h"

#include <string.h>

static bool read_by_others(const graph *g, weft_tensor t, uint32_t first)
{
    for (uint32_t i = 0; i < first; i++)
        for (uint32_t k = 0; !g->nodes.at[i].replaced && k < g->nodes.at[i].nin; k++)
            if (g->nodes.at[i].in[k] == t)
                return true;
    return false;
}

/* Makes the node that produced `src` produce `dst`, throughout the replacement. */
static weft_status stand_in(graph *g, uint32_t first, weft_tensor dst, weft_tensor src)
{
    uint32_t producer = graph_tensor_at(g, src)->producer;
    if (producer <= first)
        return err_fail(
            WEFT_USAGE,
            "a replacement assigns %s, for the second time or from a tensor that it has "
            "not made; the op copy makes one",
            graph_tensor_at(g, dst)->name);
    for (uint32_t i = first; i < g->nodes.n; i++) {
        graph_node *n = &g->nodes.at[i];
        for (uint32_t k = 0; k < n->nin && !n->assign; k++)
            n->in[k] = n->in[k] == src ? dst : n->in[k];
        for (uint32_t k = 0; k < n->nout && i + 1 == producer; k++)
            n->out[k] = n->out[k] == src ? dst : n->out[k];
    }
    graph_tensor_at(g, src)->producer = 0;
    graph_tensor_at(g, dst)->producer = producer;
    return WEFT_OK;
}

/* Gives assigned tensors the handles of the outputs they replace, and marks the assignments as
 * done. */
static weft_status take_over(graph *g, uint32_t op, uint32_t first)
{
    uint64_t assigned = 0;
    for (uint32_t i = first; i < g->nodes.n; i++) {
        graph_node *n = &g->nodes.at[i];
        const graph_node *old = &g->nodes.at[op];
        if (!n->assign)
            continue;
        for (uint32_t k = 0; k < old->nout; k++) {
            if (old->out[k] != n->out[0])
                continue;
            if (assigned >> k & 1)
                return err_fail(WEFT_USAGE, "a replacement of %s assigns %s twice", old->id,
                                graph_tensor_at(g, n->out[0])->name);
            assigned |= (uint64_t)1 << k;
        }
        n->replaced = true;
        weft_status st = stand_in(g, first, n->out[0], n->in[0]);
        if (st != WEFT_OK)
            return st;
    }
    const graph_node *old = &g->nodes.at[op];
    for (uint32_t k = 0; k < old->nout; k++)
        if (!(assigned >> k & 1) && read_by_others(g, old->out[k], first))
            return err_fail(WEFT_USAGE, "a replacement of %s assigns nothing to %s, which is read",
                            old->id, graph_tensor_at(g, old->out[k])->name);
    return WEFT_OK;
}

weft_status graph_replace(graph *g, uint32_t op, weft_emit emit, void *user)
{
    if (op >= g->nodes.n || !g->nodes.at[op].op || g->nodes.at[op].replaced)
        return err_fail(WEFT_USAGE,
                        "op number %u cannot be replaced: it is not an op, is communication, or "
                        "has already been replaced",
                        op);
    weft_status given = graph_check_pointer("edits.replace", "emit", (const void *)(uintptr_t)emit);
    if (given != WEFT_OK)
        return given;
    const uint32_t first = g->nodes.n;
    const graph_session outer = g->now;
    g->now.block = g->nodes.at[op].block;
    g->now.phase = g->nodes.at[op].phase;
    g->now.looking = NULL;
    g->now.replacing = op + 1;
    weft_builder b = graph_builder(g);
    weft_status st = graph_check_return(emit(user, &b), ERR_OWNER, "the replacement", "emit");
    g->now = outer;
    if (st == WEFT_OK)
        st = take_over(g, op, first);
    g->nodes.at[op].replaced = true;
    g->nodes.at[op].put_first = first;
    g->nodes.at[op].put_end = g->nodes.n;
    return st;
}

static void put(const graph *g, uint32_t i, graph_nodes *to)
{
    const graph_node *n = &g->nodes.at[i];
    if (!n->replaced)
        *vec_push(to) = *n;
    for (uint32_t k = n->put_first; n->replaced && k < n->put_end; k++)
        put(g, k, to);
}

/* Drops the nodes that replacements have left without readers, in one walk from the end, since
 * readers come after what they read. `lost` [tensor]: a replaced op has read it. */
static void drop_unread(graph *g, graph_nodes *order, bool *lost)
{
    uint32_t *reads = pool_array(&g->pool, g->tensors.n + 1, sizeof *reads), kept = order->n;
    for (uint32_t i = 0; i < order->n; i++)
        for (uint32_t k = 0; k < order->at[i].nin; k++)
            reads[order->at[i].in[k]]++;
    for (uint32_t i = order->n; i-- > 0;) {
        const graph_node n = order->at[i];
        bool any = false, read = false;
        for (uint32_t k = 0; k < n.nout; k++) {
            any |= lost[n.out[k]];
            read |= reads[n.out[k]] != 0 || graph_tensor_at(g, n.out[k])->kind != WEFT_T_ACTIVATION;
        }
        if (read || !any) {
            order->at[--kept] = n;
            continue;
        }
        for (uint32_t k = 0; k < n.nin; k++) {
            reads[n.in[k]]--;
            lost[n.in[k]] = true;
        }
    }
    order->n -= kept;
    memmove(order->at, order->at + kept, order->n * sizeof *order->at);
    for (weft_tensor t = 1; t <= g->tensors.n; t++)
        if (lost[t] && !reads[t] && graph_tensor_at(g, t)->kind == WEFT_T_PARAM)
            graph_tensor_at(g, t)->kind = TENSOR_REMOVED;
}

/* Numbers the producers in the new order; every tensor must be made before it is read. */
static weft_status number_producers(graph *g)
{
    for (uint32_t t = 0; t < g->tensors.n; t++)
        if (g->tensors.at[t].kind == WEFT_T_ACTIVATION)
            g->tensors.at[t].producer = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        for (uint32_t k = 0; k < n->nin; k++) {
            const graph_tensor *t = graph_tensor_at(g, n->in[k]);
            if (t->kind == WEFT_T_ACTIVATION && !t->producer)
                return err_fail(WEFT_USAGE, "a replacement's %s reads %s before it is made", n->id,
                                t->name);
        }
        for (uint32_t k = 0; k < n->nout; k++)
            graph_tensor_at(g, n->out[k])->producer = i + 1;
    }
    return WEFT_OK;
}

weft_status graph_apply_replacements(graph *g)
{
    bool any = false, *inside = pool_array(&g->pool, g->nodes.n, sizeof *inside);
    bool *lost = pool_array(&g->pool, g->tensors.n + 1, sizeof *lost);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        any |= n->replaced;
        for (uint32_t k = n->put_first; n->replaced && k < n->put_end; k++)
            inside[k] = true;
        for (uint32_t k = 0; n->replaced && !n->assign && k < n->nin; k++)
            lost[n->in[k]] = true;
    }
    if (!any)
        return WEFT_OK;
    graph_nodes order = {0};
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (!inside[i])
            put(g, i, &order);
    drop_unread(g, &order, lost);
    graph_take_nodes(g, &order);
    return number_producers(g);
}
