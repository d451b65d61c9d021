/* graph/builder_comm.c: the builder's comm(): explicit communication in a graph. */
#include "base/err.h"
#include "base/sized.h"
#include "graph/arguments.h"

#include <stdio.h>
#include <string.h>

/* The ids of the kinds of communication that a graph may contain. */
static const char *comm_id(uint32_t kind)
{
    switch (kind) {
    case WEFT_ALL_REDUCE: return "all_reduce";
    case WEFT_REDUCE_SCATTER: return "reduce_scatter";
    case WEFT_ALL_GATHER: return "all_gather";
    case WEFT_ALL_TO_ALL: return "all_to_all";
    case WEFT_SHIFT: return "shift";
    default: return NULL;
    }
}

static weft_status check_shift(const graph_tensor *t, const char *axis, uint32_t root,
                               uint32_t size)
{
    if (!axis && root && (root < size || size == 1))
        return WEFT_OK;
    return err_fail(
        WEFT_USAGE,
        "shift of %s by %u over %u coordinates: it takes no axis of the tensor, and goes 1 "
        "to %u further",
        t->name, root, size, size - 1);
}

static weft_status no_axis(const graph *g, const char *name)
{
    char axes[WEFT_MAX_MESH * WEFT_MAX_NAME] = "";
    for (uint32_t a = 0; a < g->mesh->n; a++) {
        const size_t used = strlen(axes);
        snprintf(axes + used, sizeof axes - used, "%s%s", a ? ", " : "", g->mesh->name[a]);
    }
    return err_fail(WEFT_USAGE,
                    "builder.comm(): '%s' is neither a mesh axis of this job, which has %s, nor a "
                    "group that an edit has made",
                    name, *axes ? axes : "none");
}

/* Finds a mesh axis, or 1 + a group of it in *group. */
static weft_status find_axis(const graph *g, const char *name, uint32_t *axis, uint32_t *group)
{
    const int a = graph_mesh_axis(g->mesh, name);
    *group = 0;
    *axis = (uint32_t)a;
    for (uint32_t i = 0; a < 0 && i < g->ngroups; i++)
        if (!strcmp(g->groups[i].name, name)) {
            *group = i + 1;
            *axis = g->groups[i].mesh_axis;
        }
    return a >= 0 || *group ? WEFT_OK : no_axis(g, name);
}

/* Coordinates outside a group keep what they have, so the result stays one tensor where parts
 * change places, and where a maximum of some partial maxima is taken. Summing a subset of the
 * partial sums is wrong: the full sum would count them twice. In a periodic list each coordinate
 * has a tensor of its own, and the list defines what a sum over a group means. */
static weft_status check_group(const graph *g, const weft_comm_args *c)
{
    const char *name = c->mesh_axis;
    const bool all = c->kind == WEFT_ALL_REDUCE;
    if (!g->now.state_of && (c->kind == WEFT_SHIFT || (all && c->redop == WEFT_MAX)))
        return WEFT_OK;
    if (g->now.state_of && !*g->now.state_of && all)
        return WEFT_OK;
    if (g->now.state_of)
        return err_fail(WEFT_UNSUPPORTED,
                        "builder.comm() over the group '%s': in a periodic list a group "
                        "all-reduces, and a rule communicates over mesh axes",
                        name);
    if (all)
        return err_fail(WEFT_UNSUPPORTED,
                        "builder.comm() over the group '%s': a sum of some of the partial sums "
                        "would be counted by each of the group's coordinates; sum over the mesh "
                        "axis, or gradients over a group by the edit sync",
                        name);
    return err_fail(WEFT_UNSUPPORTED,
                    "builder.comm() over the group '%s': in a pass a group shifts parts and takes "
                    "maxima (WEFT_ALL_REDUCE, WEFT_MAX); of what other kinds make, coordinates "
                    "outside the group would have parts of another size",
                    name);
}

static weft_status check_comm(const graph *g, uint32_t kind, uint32_t redop, const char *axis,
                              uint32_t root, uint32_t size, weft_tensor in)
{
    const char *id = comm_id(kind);
    const graph_tensor *t = graph_tensor_at(g, in);
    if (kind == WEFT_SHIFT)
        return check_shift(t, axis, root, size);
    if (!id)
        return err_fail(WEFT_UNSUPPORTED,
                        "communication of kind %u cannot be built into a graph in "
                        "this version; all-reduce, reduce-scatter, all-gather, all-to-all and "
                        "shift can",
                        kind);
    if ((kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER) && redop != WEFT_SUM &&
        redop != WEFT_MAX)
        return err_fail(
            WEFT_UNSUPPORTED,
            "builder.comm(): %s of %s by the operation %u; a graph has sums (WEFT_SUM) and "
            "maxima (WEFT_MAX)",
            id, t->name, redop);
    if (root || (kind == WEFT_ALL_REDUCE) != !axis)
        return err_fail(WEFT_USAGE, "%s of %s takes %s axis of the tensor, and no root", id,
                        t->name, kind == WEFT_ALL_REDUCE ? "no" : "an");
    if (!axis || graph_axis_of(&t->shape, axis, strlen(axis)) < t->shape.rank)
        return WEFT_OK;
    return err_fail(WEFT_USAGE, "%s of %s along '%s': it has no such axis", id, t->name, axis);
}

static weft_status check_args(graph *g, const weft_comm_args *a, weft_tensor in,
                              const weft_tensor *out)
{
    weft_status st = graph_check_pointer("builder.comm", "out", out);
    if (st == WEFT_OK)
        st = graph_check_text("builder.comm", "mesh_axis", a->mesh_axis, WEFT_MAX_NAME - 1);
    if (st == WEFT_OK && a->axis)
        st = graph_check_text("builder.comm", "axis", a->axis, WEFT_MAX_NAME - 1);
    if (st == WEFT_OK)
        st = graph_check_tensor(g, "builder.comm", "in", in);
    return st;
}

/* Logically the identity: only the placement changes, which place.c derives: also the axis that an
 * all-to-all joins. A shift rotates the parts of a split tensor by `root` parts. */
weft_status graph_comm(void *ctx, const weft_comm_args *args, weft_tensor in, weft_tensor *out)
{
    graph *g = ctx;
    weft_comm_args c = {0};
    weft_status st = graph_check_call(g, CALL_COMM, 0);
    if (st == WEFT_OK)
        st = sized_take("builder.comm", args, &c, sizeof c, 0);
    if (st == WEFT_OK)
        st = check_args(g, &c, in, out);
    if (st != WEFT_OK)
        return st;
    uint32_t a, group;
    st = find_axis(g, c.mesh_axis, &a, &group);
    if (st == WEFT_OK && group)
        st = check_group(g, &c);
    if (st != WEFT_OK)
        return st;
    const uint32_t size = group ? g->groups[group - 1].n : g->mesh->size[a];
    st = check_comm(g, c.kind, c.redop, c.axis, c.root, size, in);
    if (st != WEFT_OK)
        return st;
    if (size == 1) {
        *out = in;
        return WEFT_OK;
    }
    graph_node *n = graph_add_node(g, comm_id(c.kind), 0, 1, 1);
    n->comm = c.kind;
    n->redop = c.redop;
    n->mesh_axis = a;
    n->group = group;
    n->root = c.root;
    const weft_shape shape = graph_tensor_at(g, in)->shape;
    n->cuts = c.axis ? graph_axis_of(&shape, c.axis, strlen(c.axis)) : NO_AXIS;
    n->joins = c.kind == WEFT_ALL_GATHER ? n->cuts : NO_AXIS;
    n->in[0] = in;
    char name[WEFT_MAX_NAME];
    snprintf(name, sizeof name, "%s#%u", n->id, g->nodes.n);
    *out = graph_add_output(g, 0, name, &shape);
    return WEFT_OK;
}
