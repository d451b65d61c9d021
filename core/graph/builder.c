/* graph/builder.c: the builder table of weft/graph.h over a graph. */
#include "base/err.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "host/call.h"

#include <stdio.h>
#include <string.h>

static bool known(const graph *g, weft_tensor t)
{
    return t >= 1 && t <= g->tensors.n;
}

static weft_status b_shape(void *ctx, weft_tensor t, weft_shape *out)
{
    graph *g = ctx;
    if (!known(g, t))
        return fail(WEFT_USAGE, "the graph has no tensor number %u", t);
    *out = graph_tensor(g, t)->shape;
    return WEFT_OK;
}

static const char *b_name(void *ctx, weft_tensor t)
{
    return known(ctx, t) ? graph_tensor(ctx, t)->name : "(no tensor)";
}

static uint32_t b_kind(void *ctx, weft_tensor t)
{
    return known(ctx, t) ? graph_tensor(ctx, t)->kind : 0;
}

static weft_status b_block(void *ctx, const char *name)
{
    graph *g = ctx;
    *vec_push(&g->blocks) = pool_text(&g->pool, name);
    g->block = g->blocks.n - 1;
    return WEFT_OK;
}

static weft_status check_shape(const char *name, const weft_shape *s)
{
    if (s->rank > WEFT_MAX_AXES)
        return fail(WEFT_USAGE, "tensor %s has %u axes; at most %d are possible", name, s->rank,
                    WEFT_MAX_AXES);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!s->axes[i].name || s->axes[i].size < 1 ||
            __builtin_mul_overflow(elements, (uint64_t)s->axes[i].size, &elements) ||
            elements > UINT64_MAX / 64)
            return fail(WEFT_USAGE, "tensor %s: axis %u is empty, unnamed or too large", name, i);
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(s->axes[k].name, s->axes[i].name))
                return fail(WEFT_USAGE, "tensor %s has the axis '%s' twice: name them apart", name,
                            s->axes[i].name);
    }
    if (s->dtype && !weft_dtype_size(s->dtype))
        return fail(WEFT_USAGE, "tensor %s has the unknown element type %u", name, s->dtype);
    return WEFT_OK;
}

static weft_status add_named(graph *g, const char *name, uint32_t kind, const weft_shape *shape,
                             weft_tensor *out)
{
    weft_status s = check_shape(name, shape);
    if (s)
        return s;
    if (strlen(name) >= WEFT_MAX_NAME)
        return fail(WEFT_USAGE, "the tensor name '%s' is longer than %d bytes", name,
                    WEFT_MAX_NAME - 1);
    if (graph_find(g, name))
        return fail(WEFT_USAGE, "the graph already has a tensor named %s", name);
    *out = graph_add(g, name, kind, shape);
    return WEFT_OK;
}

static weft_status b_input(void *ctx, const char *name, const weft_shape *shape, weft_tensor *out)
{
    return add_named(ctx, name, WEFT_T_INPUT, shape, out);
}

static weft_status b_param(void *ctx, const char *name, const weft_shape *shape, const char *init,
                           uint32_t flags, weft_tensor *out)
{
    graph *g = ctx;
    weft_status s = add_named(g, name, WEFT_T_PARAM, shape, out);
    if (s)
        return s;
    graph_tensor(g, *out)->init = pool_text(&g->pool, init);
    graph_tensor(g, *out)->flags = flags;
    return WEFT_OK;
}

static weft_status b_scalar(void *ctx, const char *name, weft_tensor *out)
{
    graph *g = ctx;
    weft_shape scalar = {.dtype = WEFT_F32};
    weft_tensor have = graph_find(g, name);
    if (have && graph_tensor(g, have)->kind != WEFT_T_SCALAR)
        return fail(WEFT_USAGE, "'%s' is a tensor, not a scalar", name);
    *out = have ? have : graph_add(g, name, WEFT_T_SCALAR, &scalar);
    return WEFT_OK;
}

static weft_status b_constant(void *ctx, double value, weft_tensor *out)
{
    graph *g = ctx;
    for (uint32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].constant && g->tensors.at[i].value == value) {
            *out = i + 1;
            return WEFT_OK;
        }
    char name[WEFT_MAX_NAME];
    snprintf(name, sizeof name, "const.%.17g", value);
    weft_status s = b_scalar(ctx, name, out);
    if (!s) {
        graph_tensor(g, *out)->constant = true;
        graph_tensor(g, *out)->value = value;
    }
    return s;
}

static bool in_list(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, word, n) && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

static weft_status b_state(void *ctx, const char *name, weft_tensor like, uint32_t dtype,
                           const char *keep, weft_tensor *out)
{
    graph *g = ctx;
    if (!g->state_of || !known(g, like))
        return fail(WEFT_USAGE, "state '%s' asked for outside an update rule", name);
    weft_shape whole = graph_tensor(g, like)->shape, shape = {.dtype = dtype ? dtype : WEFT_F32};
    for (uint32_t i = 0; i < whole.rank; i++)
        if (!keep || in_list(keep, whole.axes[i].name))
            shape.axes[shape.rank++] = whole.axes[i];
    char full[2 * WEFT_MAX_NAME];
    snprintf(full, sizeof full, "%s.%s", *g->state_of ? g->state_of : graph_tensor(g, like)->name,
             name);
    weft_status s = add_named(g, full, WEFT_T_STATE, &shape, out);
    if (!s)
        graph_tensor(g, *out)->of = like;
    return s;
}

static const weft_op *find_op(const graph *g, const char *id)
{
    const weft_op *op = graph_core_op(id);
    return op || !g->find ? op : g->find(g->find_ctx, id);
}

static weft_status b_op(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                        const weft_tensor *in, uint32_t nin, weft_tensor *out, uint32_t nout)
{
    graph *g = ctx;
    const weft_op *op = find_op(g, id);
    if (!op)
        return fail(WEFT_USAGE, "there is no op '%s'", id);
    if (nin > WEFT_MAX_OPERANDS || nout > WEFT_MAX_OPERANDS)
        return fail(WEFT_USAGE, "op %s has more than %d operands", id, WEFT_MAX_OPERANDS);
    weft_shape from[WEFT_MAX_OPERANDS] = {0}, to[WEFT_MAX_OPERANDS] = {0};
    for (uint32_t i = 0; i < nin; i++) {
        weft_status s = b_shape(g, in[i], &from[i]);
        if (s)
            return s;
    }
    uint32_t count = 0;
    weft_builder b = graph_builder(g);
    weft_status s = PLUGIN_CALL(op, infer, &b, attrs, nattr, from, nin, to, &count);
    if (s)
        return s;
    if (count != nout)
        return fail(WEFT_USAGE, "op %s has %u outputs, %u were asked for", id, count, nout);
    node *n = graph_node(g, id, nattr, nin, nout);
    n->op = op;
    for (uint32_t i = 0; i < nattr; i++) {
        ((weft_attr *)n->attrs)[i] = attrs[i];
        ((weft_attr *)n->attrs)[i].key = pool_text(&g->pool, attrs[i].key);
    }
    if (nin)
        memcpy(n->in, in, nin * sizeof *in);
    uint32_t number = g->nodes.n;
    for (uint32_t i = 0; i < nout; i++) {
        char name[WEFT_MAX_NAME];
        snprintf(name, sizeof name, "%.40s#%u.%u", id, number, i);
        out[i] = graph_add(g, name, WEFT_T_ACTIVATION, &to[i]);
        graph_tensor(g, out[i])->producer = number;
        g->nodes.at[number - 1].out[i] = out[i];
    }
    return WEFT_OK;
}

/* What kinds of communication are in a graph, and what they are called there. */
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
    return fail(WEFT_USAGE,
                "shift of %s by %u over %u coordinates: it takes no axis of the tensor, and goes 1 "
                "to %u further",
                t->name, root, size, size - 1);
}

static weft_status check_comm(const graph *g, uint32_t kind, const char *axis, uint32_t root,
                              uint32_t size, weft_tensor in)
{
    const char *id = comm_id(kind);
    const tensor *t = graph_tensor(g, in);
    if (kind == WEFT_SHIFT)
        return check_shift(t, axis, root, size);
    if (!id)
        return fail(WEFT_UNSUPPORTED,
                    "communication of kind %u cannot be built into a graph in "
                    "this version; all-reduce, reduce-scatter, all-gather and shift can",
                    kind);
    if (root || (kind == WEFT_ALL_REDUCE) != !axis)
        return fail(WEFT_USAGE, "%s of %s takes %s axis of the tensor, and no root", id, t->name,
                    kind == WEFT_ALL_REDUCE ? "no" : "an");
    if (!axis || (t->shape.rank && !strcmp(t->shape.axes[0].name, axis)))
        return WEFT_OK;
    return fail(WEFT_UNSUPPORTED,
                "%s of %s along '%s': only the first axis of a tensor can be cut or joined, whose "
                "parts lie one behind the other in memory; another would have to be copied apart",
                id, t->name, axis);
}

/* Logically the identity: only where the elements are changes, which place.c works out. A shift
 * moves the parts of a split tensor round by `root` parts. */
static weft_status b_comm(void *ctx, uint32_t kind, uint32_t redop, const char *axis_of_mesh,
                          const char *axis, uint32_t root, weft_tensor in, weft_tensor *out)
{
    graph *g = ctx;
    int a = mesh_axis(g->mesh, axis_of_mesh);
    if (a < 0 || !known(g, in))
        return fail(WEFT_USAGE, "communication over the mesh axis '%s', which this job has not",
                    axis_of_mesh);
    weft_status s = check_comm(g, kind, axis, root, g->mesh->size[a], in);
    if (s)
        return s;
    if (g->mesh->size[a] == 1) {
        *out = in;
        return WEFT_OK;
    }
    node *n = graph_node(g, comm_id(kind), 0, 1, 1);
    n->comm = kind;
    n->redop = redop;
    n->mesh_axis = (uint32_t)a;
    n->root = root;
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

/* In a replacement: is dst an output of the op replaced, and src like it? */
static weft_status check_stand_in(const graph *g, weft_tensor dst, weft_tensor src)
{
    const node *old = &g->nodes.at[g->replacing - 1];
    const weft_shape *a = &graph_tensor(g, dst)->shape, *b = &graph_tensor(g, src)->shape;
    bool found = false, like = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t k = 0; k < old->nout; k++)
        found |= old->out[k] == dst;
    for (uint32_t k = 0; like && k < a->rank; k++)
        like = a->axes[k].size == b->axes[k].size && !strcmp(a->axes[k].name, b->axes[k].name);
    if (!found)
        return fail(WEFT_USAGE, "a replacement of %s assigns %s, which is no output of it", old->id,
                    graph_tensor(g, dst)->name);
    if (!like)
        return fail(WEFT_USAGE, "a replacement of %s assigns %s a tensor of another shape or type",
                    old->id, graph_tensor(g, dst)->name);
    return WEFT_OK;
}

static weft_status b_assign(void *ctx, weft_tensor dst, weft_tensor src)
{
    graph *g = ctx;
    if (!known(g, dst) || !known(g, src))
        return fail(WEFT_USAGE, "an assignment names a tensor that does not exist");
    uint32_t kind = graph_tensor(g, dst)->kind;
    weft_status s = g->replacing ? check_stand_in(g, dst, src) : WEFT_OK;
    if (s)
        return s;
    if (!g->replacing && kind != WEFT_T_PARAM && kind != WEFT_T_STATE && kind != WEFT_T_SCALAR)
        return fail(WEFT_USAGE, "%s is neither parameter, state nor scalar: it cannot be assigned",
                    graph_tensor(g, dst)->name);
    node *n = graph_node(g, "assign", 0, 1, 1);
    n->assign = true;
    n->in[0] = src;
    n->out[0] = dst;
    return WEFT_OK;
}

static weft_status b_fail(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    return fail(code, "%s", text);
}

weft_builder graph_builder(graph *g)
{
    return (weft_builder){sizeof(weft_builder),
                          0,
                          g,
                          b_shape,
                          b_name,
                          b_kind,
                          b_block,
                          b_input,
                          b_param,
                          b_scalar,
                          b_constant,
                          b_state,
                          b_op,
                          b_comm,
                          b_assign,
                          b_fail};
}
