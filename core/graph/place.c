/* graph/place.c: where each tensor's elements are, carried through the ops.
 *
 * Edits place a few tensors; every other placement follows from the op that makes the tensor. An op
 * that cannot compute on a partial input gets an all-reduce before it: that is how the two
 * all-reduces of a tensor-parallel block, and their conjugates in backward, come about. */
#include "base/err.h"
#include "graph/graph.h"
#include "graph/ops.h"

#include <string.h>

weft_status graph_split(graph *g, const char *glob, const char *axis, uint32_t mesh_axis)
{
    bool any = false;
    for (uint32_t i = 0; i < g->tensors.n; i++) {
        tensor *t = &g->tensors.at[i];
        if (!glob_match(glob, t->name))
            continue;
        any = true;
        uint32_t k = 0;
        while (k < t->shape.rank && strcmp(t->shape.axes[k].name, axis))
            k++;
        if (k == t->shape.rank)
            return fail(WEFT_USAGE, "tensor %s has no axis '%s' to split over %s", t->name, axis,
                        g->mesh->name[mesh_axis]);
        weft_shape now = graph_local(g, i + 1);
        if (now.axes[k].size % g->mesh->size[mesh_axis])
            return fail(WEFT_USAGE,
                        "axis '%s' of %s has %lld elements, which %s = %u does not divide", axis,
                        t->name, (long long)now.axes[k].size, g->mesh->name[mesh_axis],
                        g->mesh->size[mesh_axis]);
        t->place[mesh_axis] = (weft_place){WEFT_SPLIT, k};
    }
    if (!any)
        return fail(WEFT_USAGE, "no tensor is named '%s'", glob);
    return WEFT_OK;
}

/* Placements of node `i`'s outputs along mesh axis `a`. */
static weft_status shard_node(graph *g, uint32_t i, uint32_t a, weft_place *out)
{
    const node *n = &g->nodes.at[i];
    weft_place in[WEFT_MAX_OPERANDS] = {0};
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = graph_tensor(g, n->in[k])->place[a];
    weft_opcall call = {sizeof call, n->nattr, n->attrs, n->nin, n->nout, n->in, n->out, NULL};
    weft_builder b = graph_builder(g);
    return n->op->shard ? n->op->shard(&b, &call, g->mesh->size[a], in, out)
                        : graph_shard_by_names(&b, n->op, n->id, &call, in, out);
}

/* Put an all-reduce of in[k] before node *i, which moves one place up. */
static weft_status complete(graph *g, uint32_t *i, uint32_t k, uint32_t a)
{
    node n = g->nodes.at[*i];
    weft_tensor out, in = n.in[k];
    uint32_t redop = graph_tensor(g, in)->place[a].kind == WEFT_PARTIAL_MAX ? WEFT_MAX : WEFT_SUM;
    uint32_t block = g->block, phase = g->phase;
    g->block = n.block;
    g->phase = n.phase;
    weft_builder b = graph_builder(g);
    weft_status s = b.comm(g, WEFT_ALL_REDUCE, redop, g->mesh->name[a], NULL, 0, in, &out);
    g->block = block;
    g->phase = phase;
    if (s)
        return s;
    memcpy(graph_tensor(g, out)->place, graph_tensor(g, in)->place, sizeof(tensor){0}.place);
    graph_tensor(g, out)->place[a] = (weft_place){WEFT_WHOLE, 0};
    node fresh = g->nodes.at[g->nodes.n - 1];
    memmove(&g->nodes.at[*i + 1], &g->nodes.at[*i], (g->nodes.n - 1 - *i) * sizeof(node));
    g->nodes.at[*i] = fresh;
    for (uint32_t j = *i; j < g->nodes.n; j++) { /* producers moved; later readers take the sum */
        node *later = &g->nodes.at[j];
        for (uint32_t o = 0; o < later->nout; o++)
            if (graph_tensor(g, later->out[o])->kind == WEFT_T_ACTIVATION)
                graph_tensor(g, later->out[o])->producer = j + 1;
        for (uint32_t o = 0; j > *i && o < later->nin; o++)
            if (later->in[o] == in)
                later->in[o] = out;
    }
    ++*i;
    return WEFT_OK;
}

static bool partial(weft_place p)
{
    return p.kind == WEFT_PARTIAL_SUM || p.kind == WEFT_PARTIAL_MAX;
}

static weft_status set_places(graph *g, uint32_t i, uint32_t a, const weft_place *out)
{
    node *n = &g->nodes.at[i];
    for (uint32_t k = 0; k < n->nout; k++) {
        tensor *t = graph_tensor(g, n->out[k]);
        if (t->kind != WEFT_T_ACTIVATION && partial(t->place[a]) && t->place[a].kind != out[k].kind)
            return fail(WEFT_USAGE, "the contributions to %s are placed unlike over %s", t->name,
                        g->mesh->name[a]);
        t->place[a] = out[k];
        weft_shape local = graph_local(g, n->out[k]);
        for (uint32_t x = 0; x < local.rank; x++)
            if (local.axes[x].size < 1)
                return fail(WEFT_USAGE, "axis '%s' of %s has fewer elements than %s = %u",
                            local.axes[x].name, t->name, g->mesh->name[a], g->mesh->size[a]);
    }
    return WEFT_OK;
}

static weft_status propagate_axis(graph *g, uint32_t *i, uint32_t a, uint32_t *end)
{
    weft_place out[WEFT_MAX_OPERANDS] = {0};
    weft_status s = shard_node(g, *i, a, out);
    if (s == WEFT_UNSUPPORTED) {
        uint32_t before = *i;
        for (uint32_t k = 0; k < g->nodes.at[*i].nin; k++)
            if (partial(graph_tensor(g, g->nodes.at[*i].in[k])->place[a])) {
                weft_status done = complete(g, i, k, a);
                if (done)
                    return done;
                ++*end;
            }
        if (*i != before)
            s = shard_node(g, *i, a, out);
    }
    if (s) {
        err_context("%s cannot be computed over the mesh axis %s", g->nodes.at[*i].id,
                    g->mesh->name[a]);
        return s == WEFT_UNSUPPORTED ? WEFT_USAGE : s;
    }
    return set_places(g, *i, a, out);
}

weft_status graph_propagate(graph *g, uint32_t first, uint32_t *end)
{
    for (uint32_t i = first; i < *end; i++)
        for (uint32_t a = 0; a < g->mesh->n; a++) {
            const node *n = &g->nodes.at[i];
            if (n->comm || !n->op)
                break; /* placed when it was put in */
            if (g->mesh->size[a] == 1)
                continue;
            weft_status s = propagate_axis(g, &i, a, end);
            if (s)
                return s;
        }
    return WEFT_OK;
}
