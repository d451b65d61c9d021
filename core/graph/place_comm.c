/* graph/place_comm.c: the placement of communication that somebody builds into a graph.
 *
 *   all-reduce       partial        -> whole
 *   reduce-scatter   partial        -> split along the named axis
 *   all-gather       split along it -> whole
 *   all-to-all       split along any other axis -> split along the named one
 *   shift            split          -> split, each coordinate's part at another
 *
 * A tensor axis may be split over several mesh axes, the outermost first. A rank cuts and joins
 * what it has, so an all-to-all needs that no mesh axis inside its own splits the axes that it cuts
 * and joins; else parts would be joined in another order than that of the elements. */
#include "graph/place_comm.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

weft_status graph_indivisible(const graph *g, const graph_tensor *t, const weft_axis *axis,
                              uint32_t a)
{
    char legal[160] = "1";
    size_t used = 1;
    for (int64_t n = 2; n <= axis->size && n <= 1024 && used < sizeof legal - 8; n++)
        if (axis->size % n == 0)
            used += (size_t)snprintf(legal + used, sizeof legal - used, ", %lld", (long long)n);
    return err_fail(
        WEFT_USAGE,
        "axis '%s' of %s has %lld elements, which %s = %u does not divide; possible are %s",
        axis->name, t->name, (long long)axis->size, g->mesh->name[a], g->mesh->size[a], legal);
}

/* A mesh axis inside `a` that splits axis `axis` of `t`; -1: none. */
static int splits_inside(const graph *g, const graph_tensor *t, uint32_t axis, uint32_t a)
{
    for (uint32_t x = 0; x < a; x++)
        if (g->mesh->size[x] > 1 && t->place[x].kind == WEFT_SPLIT && t->place[x].axis == axis)
            return (int)x;
    return -1;
}

/* Whether the parts of `t` along mesh axis `a`, put behind each other, are in the order of the
 * whole tensor's elements: no inner mesh axis splits the same tensor axis, and there is no padding.
 */
static bool joins_in_order(const graph *g, const graph_tensor *t, uint32_t a)
{
    const uint32_t axis = t->place[a].axis;
    int64_t parts = 1;
    for (uint32_t x = 0; x < g->mesh->n; x++)
        parts *= t->place[x].kind == WEFT_SPLIT && t->place[x].axis == axis ? g->mesh->size[x] : 1;
    return splits_inside(g, t, axis, a) < 0 && t->shape.axes[axis].size % parts == 0;
}

weft_status graph_check_parts(const graph *g, weft_tensor t, uint32_t axis, uint32_t a)
{
    weft_shape local = graph_local_shape(g, t);
    if (local.axes[axis].size % g->mesh->size[a] == 0)
        return WEFT_OK;
    return graph_indivisible(g, graph_tensor_at(g, t), &local.axes[axis], a);
}

void graph_note_along(graph *g, graph_tensor *t, uint32_t a)
{
    g->along |= (uint64_t)1 << a;
    t->along |= (uint64_t)1 << a;
}

static weft_status place_shift(const graph *g, const graph_node *n)
{
    const graph_tensor *in = graph_tensor_at(g, n->in[0]);
    const char *over = g->mesh->name[n->mesh_axis];
    memcpy(graph_tensor_at(g, n->out[0])->place, in->place, sizeof in->place);
    if (in->place[n->mesh_axis].kind == WEFT_SPLIT)
        return WEFT_OK;
    return err_fail(WEFT_USAGE, "shift over %s: %s is not split there", over, in->name);
}

/* The placement is as before: parts elsewhere, or a maximum of more of the partial maxima. In a
 * list each coordinate has its own value before and after, which is a partial sum
 * (plan/optim/periodic.c). */
static weft_status place_group(const graph *g, const graph_node *n)
{
    const graph_tensor *in = graph_tensor_at(g, n->in[0]);
    const graph_group *k = &g->groups[n->group - 1];
    const bool shifts = n->comm == WEFT_SHIFT, listed = n->phase == PHASE_UPDATE;
    uint32_t needs = listed ? WEFT_PARTIAL_SUM : WEFT_PARTIAL_MAX;
    if (shifts)
        needs = WEFT_SPLIT;
    memcpy(graph_tensor_at(g, n->out[0])->place, in->place, sizeof in->place);
    if (in->place[n->mesh_axis].kind == needs)
        return WEFT_OK;
    if (!listed)
        return err_fail(WEFT_USAGE, "%s over the group %s: %s is not %s over %s", n->id, k->name,
                        in->name, shifts ? "split" : "a partial maximum",
                        g->mesh->name[n->mesh_axis]);
    return err_fail(
        WEFT_USAGE,
        "%s over the group %s: the coordinates of %s do not have values of their own of "
        "%s, as they have where its gradient is never summed (WEFT_SYNC_NEVER)",
        n->id, k->name, g->mesh->name[n->mesh_axis], in->name);
}

/* The axis that is cut is not joined, and both are in order (see the top). */
static weft_status check_all_to_all(const graph *g, const graph_node *n)
{
    const graph_tensor *in = graph_tensor_at(g, n->in[0]);
    const uint32_t a = n->mesh_axis;
    const char *over = g->mesh->name[a];
    if (n->cuts == n->joins)
        return err_fail(WEFT_USAGE,
                        "all_to_all over %s cuts '%s' of %s, which is split along that axis; it "
                        "joins the axis that is split and cuts another",
                        over, in->shape.axes[n->cuts].name, in->name);
    for (uint32_t k = 0; k < 2; k++) {
        const uint32_t axis = k ? n->joins : n->cuts;
        const int x = splits_inside(g, in, axis, a);
        if (x >= 0)
            return err_fail(WEFT_USAGE,
                            "all_to_all over %s %s '%s' of %s, which %s splits within it; in "
                            "parallel.strategy, name the strategy of %s before that of %s",
                            over, k ? "joins" : "cuts", in->shape.axes[axis].name, in->name,
                            g->mesh->name[x], over, g->mesh->name[x]);
    }
    return graph_check_parts(g, n->in[0], n->cuts, a);
}

static weft_status check_joined(const graph *g, const graph_node *n)
{
    const graph_tensor *in = graph_tensor_at(g, n->in[0]);
    if ((n->comm == WEFT_ALL_GATHER && !n->joins) || joins_in_order(g, in, n->mesh_axis))
        return WEFT_OK;
    return err_fail(
        WEFT_USAGE,
        "%s over %s joins '%s' of %s, whose parts there are not all equal and in order: "
        "the mesh does not divide it, or a mesh axis inside splits it, too",
        n->id, g->mesh->name[n->mesh_axis], in->shape.axes[n->joins].name, in->name);
}

static weft_status misplaced(const graph *g, const graph_node *n)
{
    const graph_tensor *in = graph_tensor_at(g, n->in[0]);
    const char *over = g->mesh->name[n->mesh_axis];
    if (n->comm == WEFT_ALL_GATHER)
        return err_fail(WEFT_USAGE, "%s over %s: %s is not a tensor split along '%s' there", n->id,
                        over, in->name, in->shape.axes[n->joins].name);
    return err_fail(WEFT_USAGE, "%s over %s: %s is not a %s there", n->id, over, in->name,
                    n->comm == WEFT_ALL_TO_ALL ? "split tensor" : "partial result");
}

weft_status graph_place_comm(graph *g, graph_node *n)
{
    const graph_tensor *in = graph_tensor_at(g, n->in[0]);
    graph_tensor *out = graph_tensor_at(g, n->out[0]);
    const weft_place had = in->place[n->mesh_axis];
    weft_place now = {WEFT_WHOLE, 0, 0, 0};
    uint32_t needs = n->redop == WEFT_MAX ? WEFT_PARTIAL_MAX : WEFT_PARTIAL_SUM;
    weft_status st = WEFT_OK;
    if (n->group)
        return place_group(g, n);
    if (n->comm == WEFT_SHIFT)
        return place_shift(g, n);
    if (n->comm == WEFT_ALL_GATHER || n->comm == WEFT_ALL_TO_ALL)
        needs = WEFT_SPLIT;
    if (had.kind != needs || (n->comm == WEFT_ALL_GATHER && had.axis != n->joins))
        return misplaced(g, n);
    if (needs == WEFT_SPLIT)
        n->joins = had.axis;
    if (n->comm == WEFT_ALL_TO_ALL)
        st = check_all_to_all(g, n);
    if (st == WEFT_OK && needs == WEFT_SPLIT)
        st = check_joined(g, n);
    if (st == WEFT_OK && n->comm == WEFT_REDUCE_SCATTER)
        st = graph_check_parts(g, n->in[0], n->cuts, n->mesh_axis);
    if (n->comm == WEFT_REDUCE_SCATTER || n->comm == WEFT_ALL_TO_ALL)
        now = (weft_place){WEFT_SPLIT, n->cuts, 0, 0};
    memcpy(out->place, in->place, sizeof out->place);
    out->place[n->mesh_axis] = now;
    if (n->comm == WEFT_ALL_GATHER && n->joins)
        graph_note_along(g, graph_tensor_at(g, n->in[0]), n->mesh_axis);
    if (n->comm == WEFT_REDUCE_SCATTER && n->cuts)
        graph_note_along(g, out, n->mesh_axis);
    return st;
}
