/* plan/optim/slices.c: the update of a sharded parameter by a rule that needs it whole.
 *
 * Each coordinate of the placement's mesh axis has a slice of the flattened parameter, gradient and
 * states. The rule's graph describes whole tensors. Here each tensor of it gets one or both of two
 * forms: the own slice, or whole. In the order of the nodes:
 *
 *   elementwise     on slices, unless all operands are whole already
 *   sum of squares  of the own slice, then an all-reduce of the number
 *   any other op    on whole tensors, which are all-gathered
 *   assignment      of slices to what is sharded, else of whole tensors
 *
 * The slice of a whole tensor is a part of its memory: nothing moves. So LAMB communicates numbers
 * only, and Muon gathers one tensor a matrix, the direction before its iteration.
 *
 * Cost: every coordinate computes what follows a gather, as it does without a placement; what is
 * gathered takes memory while it is used, and sends (n - 1) / n of its bytes. A slice has padding
 * at the end, where formulas of zeros may give anything; sums of squares leave it out. */
#include "plan/optim/slices.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slicer {
    graph *g;
    const plan_slices *how;
    weft_shape flat; /* of a slice's tensor */
    weft_place flat_place[WEFT_MAX_MESH];
    uint64_t local;     /* elements of the whole parameter on a rank */
    weft_tensor *slice; /* [tensor at the start] its form as slice; 0: none yet */
    weft_tensor *whole; /* [tensor at the start] its whole form */
    graph_tensor *was;  /* [tensor at the start] shape and placement */
    bool *wanted;       /* [tensor at the start] an op needs it whole */
    weft_tensor mask;   /* 1 for real elements, 0 for padding: slice; 0: none yet */
    graph_nodes nodes;
} slicer;

/* Does it compute each element from those at its place? */
static bool elementwise(const graph_node *n)
{
    return n->op && ((n->op->flags & WEFT_OP_ELEMENTWISE) || !strcmp(n->id, "cast"));
}

static bool sums_squares(const graph_node *n)
{
    return n->op && !strcmp(n->id, "sumsq");
}

/* A copy with other axes: it may as well be made of the gathered tensor. */
static bool renames(const graph_node *n)
{
    return n->op &&
           (!strcmp(n->id, "rename") || !strcmp(n->id, "merge") || !strcmp(n->id, "unmerge"));
}

/* A tensor of one number has one form only. */
static bool single(const slicer *x, weft_tensor t)
{
    return x->g->tensors.at[t - 1].shape.rank == 0;
}

static void to_slice(slicer *x, weft_tensor t)
{
    graph_tensor *k = graph_tensor_at(x->g, t);
    const uint32_t dtype = k->shape.dtype;
    k->shape = x->flat;
    k->shape.dtype = dtype;
    memcpy(k->place, x->flat_place, sizeof k->place);
}

static graph_node *append(slicer *x, const char *id, weft_tensor in, weft_tensor out)
{
    graph_node *n = vec_push(&x->nodes);
    *n = (graph_node){.id = id, .nin = in ? 1 : 0, .nout = 1, .phase = PHASE_UPDATE};
    n->in = pool_array(&x->g->pool, 1, sizeof *n->in);
    n->out = pool_array(&x->g->pool, 1, sizeof *n->out);
    n->in[0] = in;
    n->out[0] = out;
    return n;
}

static weft_tensor add_tensor(slicer *x, weft_tensor like, const char *what, bool slice)
{
    char name[2 * WEFT_MAX_NAME];
    const graph_tensor was = x->was[like];
    snprintf(name, sizeof name, "%s.%s", was.name, what);
    const weft_tensor t = graph_add(x->g, name, WEFT_T_ACTIVATION, &was.shape);
    memcpy(graph_tensor_at(x->g, t)->place, was.place, sizeof was.place);
    if (slice)
        to_slice(x, t);
    else
        graph_tensor_at(x->g, t)->capacity = x->how->count;
    return t;
}

static weft_tensor own_part(slicer *x, weft_tensor whole, weft_tensor part)
{
    graph_tensor_at(x->g, whole)->capacity = x->how->count;
    graph_tensor_at(x->g, part)->part_of = whole;
    graph_tensor_at(x->g, part)->part_axis = x->how->axis;
    append(x, SLICES_OWN_PART, whole, part);
    return part;
}

static weft_status as_slice(slicer *x, weft_tensor t, weft_tensor *out)
{
    *out = x->slice[t];
    if (*out)
        return WEFT_OK;
    if (graph_local_elements(x->g, t) != x->local)
        return err_fail(WEFT_INTERNAL, "%s has not the size of the parameter: it has no slices",
                        x->was[t].name);
    *out = x->slice[t] = own_part(x, x->whole[t], add_tensor(x, t, "part", true));
    return WEFT_OK;
}

static weft_tensor as_whole(slicer *x, weft_tensor t)
{
    if (x->whole[t])
        return x->whole[t];
    const weft_tensor out = add_tensor(x, t, "whole", false);
    graph_node *n = append(x, "all_gather", x->slice[t], out);
    n->comm = WEFT_ALL_GATHER;
    n->mesh_axis = x->how->axis;
    return x->whole[t] = out;
}

/* --- which tensors are needed whole --- */

static void find_wanted(slicer *x)
{
    for (uint32_t i = x->g->nodes.n; i-- > 0;) {
        const graph_node *n = &x->g->nodes.at[i];
        const bool all = n->assign ? !x->slice[n->out[0]]
                                   : (!elementwise(n) && !sums_squares(n)) ||
                                         (renames(n) && x->wanted[n->out[0]]);
        for (uint32_t k = 0; all && k < n->nin; k++)
            x->wanted[n->in[k]] = true;
    }
}

/* --- one node --- */

static weft_status read_as(slicer *x, graph_node *n, bool slice)
{
    weft_status st = WEFT_OK;
    for (uint32_t k = 0; st == WEFT_OK && k < n->nin; k++) {
        weft_tensor t = n->in[k];
        if (!single(x, t) && slice)
            st = as_slice(x, t, &n->in[k]);
        else if (!single(x, t))
            n->in[k] = as_whole(x, t);
    }
    return st;
}

static void keep(slicer *x, const graph_node *n, bool slice)
{
    *vec_push(&x->nodes) = *n;
    for (uint32_t k = 0; k < n->nout && !n->assign; k++) {
        const weft_tensor t = n->out[k];
        if (slice && !single(x, t))
            to_slice(x, t);
        *(slice ? &x->slice[t] : &x->whole[t]) = t;
    }
}

/* `t`, a slice, with 0 in the padding. */
static weft_tensor without_padding(slicer *x, weft_tensor t, weft_tensor like)
{
    if (x->how->count == x->local)
        return t;
    if (!x->mask) {
        weft_tensor ones = add_tensor(x, like, "real", false);
        graph_tensor_at(x->g, ones)->shape.dtype = WEFT_F32;
        append(x, SLICES_REAL, 0, ones);
        x->mask = add_tensor(x, like, "mask", true);
        graph_tensor_at(x->g, x->mask)->shape.dtype = WEFT_F32;
        own_part(x, ones, x->mask);
    }
    weft_builder b = graph_builder(x->g);
    weft_tensor zero = 0, out = 0;
    if (b.constant(b.ctx, 0, 0, &zero) != WEFT_OK ||
        b.op(b.ctx, "select", NULL, 0, (weft_tensor[]){t, zero, x->mask}, 3, 0, &out, 1) != WEFT_OK)
        return 0;
    *vec_push(&x->nodes) = x->g->nodes.at[--x->g->nodes.n];
    to_slice(x, out);
    return out;
}

/* The sum of the own slice, and then over the coordinates. */
static weft_status sum_slices(slicer *x, graph_node *n)
{
    const weft_tensor sum = n->out[0], like = n->in[0];
    weft_tensor in = 0;
    weft_status st = as_slice(x, like, &in);
    if (st != WEFT_OK)
        return st;
    n->in[0] = without_padding(x, in, like);
    if (!n->in[0])
        return WEFT_INTERNAL;
    n->out[0] = add_tensor(x, sum, "part", false);
    graph_tensor_at(x->g, n->out[0])->capacity = 0;
    *vec_push(&x->nodes) = *n;
    graph_node *all = append(x, "all_reduce", n->out[0], sum);
    all->comm = WEFT_ALL_REDUCE;
    all->redop = WEFT_SUM;
    all->mesh_axis = x->how->axis;
    x->whole[sum] = sum;
    return WEFT_OK;
}

/* Are all operands whole already? */
static bool all_whole(const slicer *x, const graph_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (!single(x, n->in[k]) && !x->whole[n->in[k]])
            return false;
    return true;
}

static weft_status take(slicer *x, const graph_node *from)
{
    graph_node n = *from;
    n.in = pool_copy(&x->g->pool, n.in, n.nin * sizeof *n.in);
    n.out = pool_copy(&x->g->pool, n.out, n.nout * sizeof *n.out);
    bool slice =
        n.assign ? x->slice[n.out[0]] != 0
                 : elementwise(&n) && !all_whole(x, &n) && !(renames(&n) && x->wanted[n.out[0]]);
    if (sums_squares(&n) && !all_whole(x, &n))
        return sum_slices(x, &n);
    weft_status st = read_as(x, &n, slice);
    if (st == WEFT_OK)
        keep(x, &n, slice);
    return st;
}

/* The shape of a slice over all ranks: flat, so that over each mesh axis a rank has its part. */
static void find_flat(slicer *x, weft_tensor param)
{
    const graph_tensor *p = graph_tensor_at(x->g, param);
    int64_t n = (int64_t)x->how->count;
    memcpy(x->flat_place, p->place, sizeof x->flat_place);
    for (uint32_t a = 0; a < x->g->mesh->n; a++)
        if (p->place[a].kind == WEFT_SPLIT) {
            n *= x->g->mesh->size[a];
            x->flat_place[a].axis = 0;
        }
    x->flat_place[x->how->axis] = (weft_place){WEFT_SPLIT, 0, 0, 0};
    x->flat = (weft_shape){.rank = 1, .axes = {{"elements", n}}};
    x->local = graph_local_elements(x->g, param);
}

weft_status plan_slices_apply(graph *g, weft_tensor param, const plan_slices *how,
                              const bool *sliced)
{
    const uint32_t tensors = g->tensors.n + 1;
    slicer x = {.g = g,
                .how = how,
                .slice = pool_array(&g->pool, tensors, sizeof *x.slice),
                .whole = pool_array(&g->pool, tensors, sizeof *x.whole),
                .was = pool_array(&g->pool, tensors, sizeof *x.was),
                .wanted = pool_array(&g->pool, tensors, sizeof *x.wanted)};
    find_flat(&x, param);
    for (weft_tensor t = 1; t < tensors; t++) {
        x.was[t] = *graph_tensor_at(g, t);
        if (sliced[t])
            x.slice[t] = t;
        else if (!x.was[t].producer)
            x.whole[t] = t;
    }
    for (weft_tensor t = 1; t < tensors; t++)
        if (sliced[t])
            to_slice(&x, t);
    find_wanted(&x);
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < g->nodes.n; i++)
        st = take(&x, &g->nodes.at[i]);
    if (st == WEFT_OK)
        graph_take_nodes(g, &x.nodes);
    else
        free(x.nodes.at);
    return st;
}
