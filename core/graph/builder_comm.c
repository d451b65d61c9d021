/* graph/builder_comm.c: the builder's comm(): explicit communication in a graph. */
#include "base/err.h"
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
    case WEFT_SHIFT: return "shift";
    default: return NULL;
    }
}

static weft_status check_shift(const tensor *t, const char *axis, uint32_t root, uint32_t size)
{
    if (!axis && root && (root < size || size == 1))
        return WEFT_OK;
    return err_fail(
        WEFT_USAGE,
        "shift of %s by %u over %u coordinates: it takes no axis of the tensor, and goes 1 "
        "to %u further",
        t->name, root, size, size - 1);
}

/* Reports that `name` is no mesh axis: it names a group, or nothing. */
static weft_status no_axis(const graph *g, const char *name)
{
    char axes[WEFT_MAX_MESH * WEFT_MAX_NAME] = "";
    for (uint32_t a = 0; a < g->mesh->n; a++) {
        const size_t used = strlen(axes);
        snprintf(axes + used, sizeof axes - used, "%s%s", a ? ", " : "", g->mesh->name[a]);
    }
    return err_fail(
        WEFT_USAGE,
        "builder.comm(): '%s' is not a mesh axis of this job, which has %s; over a group this "
        "version sums gradients alone, by the edit sync",
        name, *axes ? axes : "none");
}

static weft_status check_comm(const graph *g, uint32_t kind, uint32_t redop, const char *axis,
                              uint32_t root, uint32_t a, weft_tensor in)
{
    const char *id = comm_id(kind);
    const tensor *t = graph_tensor(g, in);
    if (kind == WEFT_SHIFT)
        return check_shift(t, axis, root, g->mesh->size[a]);
    if (!id)
        return err_fail(WEFT_UNSUPPORTED,
                        "communication of kind %u cannot be built into a graph in "
                        "this version; all-reduce, reduce-scatter, all-gather and shift can",
                        kind);
    if (kind != WEFT_ALL_GATHER && redop != WEFT_SUM && redop != WEFT_MAX)
        return err_fail(
            WEFT_UNSUPPORTED,
            "builder.comm(): %s of %s by the operation %u; a graph has sums (WEFT_SUM) and "
            "maxima (WEFT_MAX)",
            id, t->name, redop);
    if (root || (kind == WEFT_ALL_REDUCE) != !axis)
        return err_fail(WEFT_USAGE, "%s of %s takes %s axis of the tensor, and no root", id,
                        t->name, kind == WEFT_ALL_REDUCE ? "no" : "an");
    if (!axis || (t->shape.rank && !strcmp(t->shape.axes[0].name, axis)))
        return WEFT_OK;
    return err_fail(WEFT_UNSUPPORTED,
                    "%s of %s along '%s': only the first axis of a tensor can be split or joined, "
                    "because its parts are contiguous in memory; another axis would need a copy",
                    id, t->name, axis);
}

/* Logically the identity: only the placement changes, which place.c derives. A shift rotates the
 * parts of a split tensor by `root` parts. */
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

weft_status graph_comm(void *ctx, const weft_comm_args *args, weft_tensor in, weft_tensor *out)
{
    graph *g = ctx;
    weft_comm_args c = {0};
    weft_status st = graph_check_call(g, CALL_COMM);
    if (st == WEFT_OK)
        st = graph_take_args("builder.comm", args, &c, sizeof c, 0);
    if (st == WEFT_OK)
        st = check_args(g, &c, in, out);
    if (st != WEFT_OK)
        return st;
    const int a = graph_mesh_axis(g->mesh, c.mesh_axis);
    st = a < 0 ? no_axis(g, c.mesh_axis)
               : check_comm(g, c.kind, c.redop, c.axis, c.root, (uint32_t)a, in);
    if (st != WEFT_OK)
        return st;
    if (g->mesh->size[a] == 1) {
        *out = in;
        return WEFT_OK;
    }
    node *n = graph_node(g, comm_id(c.kind), 0, 1, 1);
    n->comm = c.kind;
    n->redop = c.redop;
    n->mesh_axis = (uint32_t)a;
    n->root = c.root;
    n->in[0] = in;
    char name[2 * WEFT_MAX_NAME];
    uint32_t number = g->nodes.n;
    snprintf(name, sizeof name, "%s#%u", n->id, number);
    weft_shape shape = graph_tensor(g, in)->shape;
    *out = graph_add(g, name, WEFT_T_ACTIVATION, &shape);
    graph_tensor(g, *out)->producer = number;
    g->nodes.at[number - 1].out[0] = *out;
    return WEFT_OK;
}
