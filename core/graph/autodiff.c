/* graph/autodiff.c: the backward pass, derived from the ops.
 *
 * Nodes are visited last to first. Each asks its op for the gradients of its inputs (B) and of its
 * parameters (W); what the op appends belongs to the node's block. A tensor with several readers
 * gets the sum of their contributions, added where the later one is made, so that one gradient
 * crosses a block boundary; the gradient records its tensor, because it gets that tensor's
 * placement (place.c). Where an op reads a gathered tensor, backward reads the shards and gathers
 * them again: a block keeps only its shards. Contributions to a parameter are not added in the
 * graph: each goes into the parameter's WEFT_T_GRAD tensor, which sums over the step. */
#include "base/err.h"
#include "graph/arguments.h"
#include "host/call.h"

#include <stdio.h>
#include <string.h>

/* The gradient sum of a parameter, made at its first contribution. */
static weft_tensor grad_of(graph *g, weft_tensor param)
{
    graph_tensor *p = graph_tensor_at(g, param);
    if (p->grad)
        return p->grad;
    char name[2 * WEFT_MAX_NAME];
    snprintf(name, sizeof name, "d(%s)", p->name);
    weft_shape shape = p->shape;
    shape.dtype = g->grad_dtype;
    const graph_session outer = g->now;
    g->now.block = p->block;
    weft_tensor t = graph_add(g, name, WEFT_T_GRAD, &shape);
    g->now = outer;
    graph_tensor_at(g, t)->of = param;
    graph_tensor_at(g, t)->sum = true;
    memcpy(graph_tensor_at(g, t)->place, graph_tensor_at(g, param)->place, sizeof p->place);
    graph_tensor_at(g, param)->grad = t;
    return t;
}

/* Makes the node that produced `d` write into the parameter's sum; through an `accumulate` where
 * its op cannot add, or where another node reads `d`. */
static weft_status into_grad(graph *g, weft_tensor param, weft_tensor d, uint32_t first_new)
{
    weft_tensor sum = grad_of(g, param);
    uint32_t producer = graph_tensor_at(g, d)->producer;
    if (producer > first_new && g->nodes.at[producer - 1].op &&
        (g->nodes.at[producer - 1].op->flags & WEFT_OP_ACCUMULATES)) {
        graph_node *n = &g->nodes.at[producer - 1];
        for (uint32_t k = 0; k < n->nout; k++)
            if (n->out[k] == d)
                n->out[k] = sum;
        return WEFT_OK;
    }
    weft_builder b = graph_builder(g);
    weft_tensor out;
    weft_status st = b.op(g, "accumulate", NULL, 0, &d, 1, 0, &out, 1);
    if (st == WEFT_OK)
        g->nodes.at[g->nodes.n - 1].out[0] = sum;
    return st;
}

static void belongs(graph *g, weft_tensor d, weft_tensor t)
{
    graph_tensor *x = graph_tensor_at(g, d);
    x->grad_for = x->grad_for ? x->grad_for : t;
}

static weft_status contribute(graph *g, weft_tensor *grads, weft_tensor t, weft_tensor d)
{
    if (!grads[t]) {
        grads[t] = d;
        return WEFT_OK;
    }
    weft_builder b = graph_builder(g);
    weft_tensor both[2] = {grads[t], d};
    weft_status st = b.op(g, "add", NULL, 0, both, 2, 0, &grads[t], 1);
    if (st != WEFT_OK)
        return st;
    g->nodes.at[g->nodes.n - 1].join = true;
    belongs(g, both[0], t);
    belongs(g, both[1], t);
    return WEFT_OK;
}

static bool wants_grad(const graph *g, weft_tensor t)
{
    const graph_tensor *x = graph_tensor_at(g, t);
    return x->kind == WEFT_T_PARAM ||
           (x->kind == WEFT_T_ACTIVATION && weft_dtype_size(x->shape.dtype) &&
            x->shape.dtype != WEFT_I32 && x->shape.dtype != WEFT_I64);
}

/* Checks what grad() of an op left in `din`: tensors of the graph, shaped like the inputs. */
static weft_status check_gradients(const graph *g, const graph_node *n, weft_status st,
                                   const weft_tensor *din)
{
    if (st != WEFT_OK)
        return graph_check_return(st, ERR_OP, n->id, "grad");
    for (uint32_t i = 0; i < n->nin; i++) {
        if (!din[i])
            continue;
        if (din[i] > g->tensors.n)
            return err_fail_in(
                WEFT_USAGE, ERR_OP, n->id,
                "its grad() gives input %u the gradient %u, and the graph has no such tensor", i,
                din[i]);
        const weft_shape *a = &graph_tensor_at(g, n->in[i])->shape;
        const weft_shape *b = &graph_tensor_at(g, din[i])->shape;
        if (!graph_same_axes(a, b))
            return err_fail_in(WEFT_USAGE, ERR_OP, n->id,
                               "its grad() gives input %u, %s, a gradient of other axes: %s", i,
                               graph_tensor_at(g, n->in[i])->name,
                               graph_tensor_at(g, din[i])->name);
    }
    return WEFT_OK;
}

weft_status graph_derive_part(graph *g, const graph_node *n, const weft_opcall *call, uint32_t part,
                              weft_tensor *din)
{
    const weft_builder b = graph_builder(g);
    const weft_op_self self = graph_op_self(n, &b);
    g->now.phase = part == WEFT_GRAD_INPUTS ? PHASE_INPUTS : PHASE_PARAMS;
    g->now.deriving = n->id;
    g->calls = 0;
    weft_status st = PLUGIN_CALL(n->op, grad, &self, call, part, din);
    g->now.deriving = NULL;
    return check_gradients(g, n, st, din);
}

/* `din` goes from the first part to the second, which may use the gradients of the first. */
static weft_status one_part(graph *g, const graph_node *n, const weft_opcall *call, uint32_t part,
                            weft_tensor *din, weft_tensor *grads)
{
    uint32_t first_new = g->nodes.n;
    weft_status st = graph_derive_part(g, n, call, part, din);
    for (uint32_t i = 0; st == WEFT_OK && i < n->nin; i++) {
        if (!din[i] || !wants_grad(g, n->in[i]))
            continue;
        bool param = graph_tensor_at(g, n->in[i])->kind == WEFT_T_PARAM;
        if (param != (part == WEFT_GRAD_PARAMS))
            continue;
        st = param ? into_grad(g, n->in[i], din[i], first_new)
                   : contribute(g, grads, n->in[i], din[i]);
    }
    return st;
}

/* The shards that an all-gather reads. */
static weft_tensor parts_of(const graph *g, weft_tensor t)
{
    const graph_tensor *x = graph_tensor_at(g, t);
    const graph_node *by = x->producer ? &g->nodes.at[x->producer - 1] : NULL;
    return by && by->comm == WEFT_ALL_GATHER ? by->in[0] : t;
}

/* What backward reads as output `t` of node `at`: the sum or maximum, where it was completed. */
static weft_tensor complete_of(const graph *g, uint32_t at, weft_tensor t)
{
    const bool partial = graph_axes(g, t, WEFT_PARTIAL_SUM) || graph_axes(g, t, WEFT_PARTIAL_MAX);
    for (uint32_t i = at + 1; partial && i < g->nodes.n; i++) {
        const graph_node *n = &g->nodes.at[i];
        t = n->comm == WEFT_ALL_REDUCE && n->in[0] == t ? n->out[0] : t;
    }
    return t;
}

/* The gradient of communication, which moves it back: of a shift, the shift in the opposite
 * direction; of an all-to-all, the one that cuts what was joined. Others are the identity in the
 * logical graph: where ranks need other parts of the gradient, place.c inserts what it takes. */
static weft_status comm_back(graph *g, const graph_node *n, weft_tensor *d)
{
    weft_builder b = graph_builder(g);
    const graph_group *k = n->group ? &g->groups[n->group - 1] : NULL;
    const char *axis = k ? k->name : g->mesh->name[n->mesh_axis];
    weft_comm_args c = {.struct_size = sizeof c, .kind = n->comm, .mesh_axis = axis};
    if (n->comm == WEFT_SHIFT) {
        c.root = (k ? k->n : g->mesh->size[n->mesh_axis]) - n->root;
        return b.comm(g, &c, *d, d);
    }
    if (n->comm != WEFT_ALL_TO_ALL)
        return WEFT_OK;
    const graph_tensor *from = graph_tensor_at(g, n->in[0]);
    if (n->joins == NO_AXIS)
        return err_fail(WEFT_INTERNAL, "all_to_all of %s has not been placed", from->name);
    c.axis = from->shape.axes[n->joins].name;
    return b.comm(g, &c, *d, d);
}

static weft_status one_node(graph *g, uint32_t at, weft_tensor *grads)
{
    graph_node n = g->nodes.at[at]; /* a copy: the array grows below; the output arrays stay */
    weft_tensor in[WEFT_MAX_OPERANDS] = {0}, dout[WEFT_MAX_OPERANDS] = {0};
    weft_tensor out[WEFT_MAX_OPERANDS] = {0};
    bool any = false;
    for (uint32_t k = 0; k < n.nin; k++)
        in[k] = parts_of(g, n.in[k]);
    n.in = in;
    for (uint32_t k = 0; k < n.nout; k++) {
        dout[k] = grads[n.out[k]];
        any |= dout[k] != 0;
        out[k] = complete_of(g, at, n.out[k]);
        if (dout[k])
            belongs(g, dout[k], n.out[k]);
    }
    if (!any)
        return WEFT_OK;
    g->now.block = n.block;
    if (n.comm) {
        g->now.phase = PHASE_INPUTS;
        weft_status st = comm_back(g, &n, &dout[0]);
        if (st != WEFT_OK)
            return st;
        return contribute(g, grads, n.in[0], dout[0]);
    }
    if (!n.op || !n.op->grad)
        return err_fail(WEFT_USAGE, "op %s has no gradient, and the loss depends on it", n.id);
    weft_opcall call = {sizeof call, n.nattr, n.attrs, n.nin, n.nout, n.in, out, dout};
    weft_tensor din[WEFT_MAX_OPERANDS] = {0};
    weft_status st = one_part(g, &n, &call, WEFT_GRAD_INPUTS, din, grads);
    return st != WEFT_OK ? st : one_part(g, &n, &call, WEFT_GRAD_PARAMS, din, grads);
}

weft_status graph_backward(graph *g, weft_tensor loss)
{
    uint32_t forward = g->nodes.n;
    weft_tensor one;
    weft_builder b = graph_builder(g);
    weft_status st = b.constant(g, 1.0, 0, &one);
    if (st != WEFT_OK)
        return st;
    /* Only forward tensors are looked up, and they all exist by now. */
    weft_tensor *grads = pool_array(&g->pool, g->tensors.n + 1, sizeof *grads);
    grads[loss] = one;
    for (uint32_t i = forward; st == WEFT_OK && i-- > 0;)
        st = one_node(g, i, grads);
    return st;
}
