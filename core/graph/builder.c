/* graph/builder.c: the builder table of weft/graph.h over a graph. */
#include "base/err.h"
#include "base/sized.h"
#include "graph/arguments.h"
#include "graph/inputs.h"
#include "host/call.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool known(const graph *g, weft_tensor t)
{
    return t >= 1 && t <= g->tensors.n;
}

static weft_status b_shape(void *ctx, weft_tensor t, weft_shape *out)
{
    graph *g = ctx;
    weft_status st = graph_check_pointer("builder.shape", g ? "out" : "ctx", g ? (void *)out : ctx);
    if (st != WEFT_OK)
        return st;
    if (!known(g, t))
        return err_fail(WEFT_USAGE, "the graph has no tensor number %u", t);
    *out = graph_tensor_at(g, t)->shape;
    return WEFT_OK;
}

static const char *b_name(void *ctx, weft_tensor t)
{
    return ctx && known(ctx, t) ? graph_tensor_at(ctx, t)->name : "(no tensor)";
}

static uint32_t b_kind(void *ctx, weft_tensor t)
{
    return ctx && known(ctx, t) ? graph_tensor_at(ctx, t)->kind : 0;
}

static weft_status b_block(void *ctx, const char *name, uint32_t flags)
{
    graph *g = ctx;
    weft_status st = graph_check_call(g, CALL_BLOCK, flags);
    if (st == WEFT_OK)
        st = graph_check_name("builder.block", "name", name);
    if (st != WEFT_OK)
        return st;
    *vec_push(&g->blocks) = pool_text(&g->pool, name);
    g->now.block = g->blocks.n - 1;
    return WEFT_OK;
}

/* Checks a tensor: its name is free or that of `have`, its shape valid, and its output pointer not
 * NULL. */
static weft_status check_new(const graph *g, const char *call, const char *name,
                             const weft_shape *shape, const weft_tensor *out, weft_tensor have)
{
    weft_status st = graph_check_name(call, "name", name);
    if (st == WEFT_OK)
        st = graph_check_shape(call, name, shape);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "out", out);
    if (st == WEFT_OK && !have && graph_find(g, name))
        st = err_fail_in(WEFT_USAGE, ERR_CALL, call, "the graph already has a tensor named %s",
                         name);
    return st;
}

static weft_status b_input(void *ctx, const weft_input_args *args, weft_tensor *out)
{
    graph *g = ctx;
    weft_input_args a = {0};
    weft_status st = graph_check_call(g, CALL_INPUT, 0);
    if (st == WEFT_OK)
        st = sized_take("builder.input", args, &a, sizeof a, 0);
    const bool number = st == WEFT_OK && a.name && !strcmp(a.name, GRAPH_FIRST_TOKEN);
    weft_tensor have = number ? graph_find(g, a.name) : 0;
    if (have && graph_tensor_at(g, have)->kind != WEFT_T_INPUT)
        have = 0;
    if (st == WEFT_OK)
        st = check_new(g, "builder.input", a.name, a.shape, out, have);
    if (st == WEFT_OK && (g->now.replacing || number || g->rows))
        st = graph_check_input(g, a.name, a.shape);
    if (st == WEFT_OK) /* several ops of a graph share the number */
        *out = have ? have : graph_add(g, a.name, WEFT_T_INPUT, a.shape);
    return st;
}

/* "zeros", "ones" or "normal:DEVIATION". */
static weft_status check_init(const char *name, const char *init)
{
    weft_status st = graph_check_text("builder.param", "init", init, WEFT_MAX_NAME - 1);
    if (st != WEFT_OK || !strcmp(init, "zeros") || !strcmp(init, "ones"))
        return st;
    char *end = NULL;
    const double deviation = strncmp(init, "normal:", 7) ? 0 : strtod(init + 7, &end);
    if (end && end != init + 7 && !*end && deviation >= 0 && deviation <= FLT_MAX)
        return WEFT_OK;
    return err_fail(
        WEFT_USAGE,
        "builder.param(): init of %s is '%s'; it must be zeros, ones or normal:DEVIATION", name,
        init);
}

static weft_status check_param(graph *g, const weft_param_args *a, const weft_tensor *out)
{
    weft_status st = check_new(g, "builder.param", a->name, a->shape, out, 0);
    if (st == WEFT_OK)
        st = check_init(a->name, a->init);
    if (st == WEFT_OK && a->role)
        st = graph_check_text("builder.param", "role", a->role, WEFT_MAX_NAME - 1);
    if (st == WEFT_OK && a->shape->dtype && a->shape->dtype != g->compute)
        st = err_fail(WEFT_USAGE,
                      "builder.param(): %s has the element type %u; a parameter has the job's: 0",
                      a->name, a->shape->dtype);
    return st;
}

static weft_status b_param(void *ctx, const weft_param_args *args, weft_tensor *out)
{
    graph *g = ctx;
    weft_param_args a = {0};
    weft_status st = graph_check_call(g, CALL_PARAM, 0);
    if (st == WEFT_OK)
        st = sized_take("builder.param", args, &a, sizeof a, WEFT_PARAM_MATRIX | WEFT_PARAM_PAD);
    if (st == WEFT_OK)
        st = check_param(g, &a, out);
    if (st != WEFT_OK)
        return st;
    *out = graph_add(g, a.name, WEFT_T_PARAM, a.shape);
    graph_tensor *t = graph_tensor_at(g, *out);
    t->init = pool_text(&g->pool, a.init);
    t->role = a.role ? pool_text(&g->pool, a.role) : NULL;
    t->flags = a.flags;
    return WEFT_OK;
}

static weft_status find_scalar(graph *g, const char *name, weft_tensor *out)
{
    const weft_shape scalar = {.dtype = WEFT_F32};
    weft_tensor have = graph_find(g, name);
    if (have && graph_tensor_at(g, have)->kind != WEFT_T_SCALAR)
        return err_fail(WEFT_USAGE, "builder.scalar(): '%s' is a tensor, not a scalar", name);
    *out = have ? have : graph_add(g, name, WEFT_T_SCALAR, &scalar);
    return WEFT_OK;
}

static weft_status b_scalar(void *ctx, const char *name, uint32_t flags, weft_tensor *out)
{
    graph *g = ctx;
    weft_status st = graph_check_call(g, CALL_SCALAR, flags);
    if (st == WEFT_OK)
        st = graph_check_name("builder.scalar", "name", name);
    if (st == WEFT_OK)
        st = graph_check_pointer("builder.scalar", "out", out);
    return st != WEFT_OK ? st : find_scalar(g, name, out);
}

static weft_status b_constant(void *ctx, double value, uint32_t flags, weft_tensor *out)
{
    graph *g = ctx;
    weft_status st = graph_check_call(g, CALL_CONSTANT, flags);
    if (st == WEFT_OK)
        st = graph_check_pointer("builder.constant", "out", out);
    if (st == WEFT_OK && isnan(value))
        st = err_fail(WEFT_USAGE, "builder.constant(): the value is not a number (NaN)");
    if (st != WEFT_OK)
        return st;
    char name[WEFT_MAX_NAME];
    snprintf(name, sizeof name, "const.%.17g", value);
    st = find_scalar(g, name, out);
    if (st != WEFT_OK)
        return st;
    graph_tensor_at(g, *out)->constant = true;
    graph_tensor_at(g, *out)->value = value;
    return WEFT_OK;
}

weft_op_self graph_op_self(const graph_node *n, const weft_builder *b)
{
    return (weft_op_self){sizeof(weft_op_self), 0, n->module, n->conf, b};
}

double graph_node_flops(const graph *g, const graph_node *n)
{
    weft_shape in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    if (!n->op || !n->op->flops)
        return 0;
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = graph_local_shape(g, n->in[k]);
    for (uint32_t k = 0; k < n->nout; k++)
        out[k] = graph_local_shape(g, n->out[k]);
    const weft_op_self self = graph_op_self(n, NULL);
    return PLUGIN_GET(n->op, flops, &self, n->attrs, n->nattr, in, n->nin, out, n->nout);
}

static weft_status check_operands(const graph *g, const graph_node *n)
{
    weft_status st = graph_check_attrs(n->id, n->attrs, n->nattr);
    if (st == WEFT_OK && (n->nin > WEFT_MAX_OPERANDS || n->nout > WEFT_MAX_OPERANDS))
        st = err_fail(WEFT_USAGE,
                      "builder.op(): %s has more than %d operands: %u inputs, %u outputs", n->id,
                      WEFT_MAX_OPERANDS, n->nin, n->nout);
    if (st == WEFT_OK && !n->nout)
        st = err_fail(WEFT_USAGE, "builder.op(): %s is asked for no output", n->id);
    if (st == WEFT_OK && n->nin)
        st = graph_check_pointer("builder.op", "in", n->in);
    if (st == WEFT_OK)
        st = graph_check_pointer("builder.op", "out", n->out);
    for (uint32_t i = 0; st == WEFT_OK && i < n->nin; i++)
        st = graph_check_tensor(g, "builder.op", n->id, n->in[i]);
    return st;
}

/* The shapes of the outputs, from the op's infer(). */
static weft_status infer(graph *g, const graph_node *n, weft_shape *out)
{
    const weft_op *op = n->op;
    const char *id = n->id;
    weft_shape in[WEFT_MAX_OPERANDS] = {0};
    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = graph_tensor_at(g, n->in[i])->shape;
    uint32_t count = WEFT_MAX_OPERANDS;
    const graph_session outer = g->now;
    const weft_builder b = graph_builder(g);
    const weft_op_self self = graph_op_self(n, &b);
    g->now.looking = "infer";
    weft_status st = PLUGIN_CALL(op, infer, &self, n->attrs, n->nattr, in, n->nin, out, &count);
    g->now = outer;
    if (st != WEFT_OK) {
        st = graph_check_return(st, ERR_OP, id, "infer");
        err_put_name(ERR_OP, id);
        return st;
    }
    if (count != n->nout)
        return err_fail_in(WEFT_USAGE, ERR_OP, id, "it has %u outputs, %u were asked for", count,
                           n->nout);
    for (uint32_t i = 0; st == WEFT_OK && i < count; i++)
        st = graph_check_shape("infer", "its output", &out[i]);
    if (st == WEFT_OK)
        st = graph_check_op(op, id, in, n->nin, out, count);
    if (st != WEFT_OK)
        err_put_name(ERR_OP, id);
    return st;
}

/* The graph's own copy of the attributes. */
static void copy_attrs(graph *g, graph_node *n, const weft_attr *attrs)
{
    weft_attr *own = (weft_attr *)n->attrs;
    for (uint32_t i = 0; i < n->nattr; i++) {
        own[i] = attrs[i];
        own[i].key = pool_text(&g->pool, attrs[i].key);
        if (attrs[i].bytes)
            own[i].data = pool_copy(&g->pool, attrs[i].data, attrs[i].bytes);
    }
}

/* Looks up the op and checks the call; *asked becomes a node that is not in the graph yet. */
static weft_status check_op(graph *g, uint32_t flags, graph_node *asked, weft_shape *to)
{
    weft_op_self self = {0};
    weft_status st = graph_check_call(g, CALL_OP, flags);
    if (st == WEFT_OK)
        st = graph_check_text("builder.op", "id", asked->id, WEFT_MAX_NAME - 1);
    asked->op = st != WEFT_OK || !g->ops.find ? NULL : g->ops.find(g->ops.ctx, asked->id, &self);
    asked->module = self.module;
    asked->conf = self.conf;
    if (st == WEFT_OK && !asked->op)
        st = err_fail(WEFT_USAGE, "unknown op '%s'", asked->id);
    if (st == WEFT_OK)
        st = check_operands(g, asked);
    if (st == WEFT_OK)
        st = infer(g, asked, to);
    return st != WEFT_OK ? st : graph_check_stream(g, asked);
}

static weft_status b_op(void *ctx, const char *id, const weft_attr *attrs, uint32_t nattr,
                        const weft_tensor *in, uint32_t nin, uint32_t flags, weft_tensor *out,
                        uint32_t nout)
{
    graph *g = ctx;
    weft_shape to[WEFT_MAX_OPERANDS] = {0};
    graph_node asked = {.id = id,
                        .attrs = attrs,
                        .nattr = nattr,
                        .in = (weft_tensor *)in,
                        .out = out,
                        .nin = nin,
                        .nout = nout};
    weft_status st = check_op(g, flags, &asked, to);
    if (st != WEFT_OK)
        return st;
    if (g->now.state_of && (asked.op->flags & WEFT_OP_ELEMENTWISE))
        to[0].dtype = WEFT_F32; /* of states in 16 bits, too */
    graph_node *n = graph_add_node(g, id, nattr, nin, nout);
    n->op = asked.op;
    n->module = asked.module;
    n->conf = asked.conf;
    copy_attrs(g, n, attrs);
    if (nin)
        memcpy(n->in, in, nin * sizeof *in);
    for (uint32_t i = 0; i < nout; i++) {
        char name[WEFT_MAX_NAME];
        snprintf(name, sizeof name, "%.40s#%u.%u", id, g->nodes.n, i);
        out[i] = graph_add_output(g, i, name, &to[i]);
    }
    return WEFT_OK;
}

/* In a replacement: checks that dst is an output of the replaced op, and that src is like it. */
static weft_status check_stand_in(const graph *g, weft_tensor dst, weft_tensor src)
{
    const graph_node *old = &g->nodes.at[g->now.replacing - 1];
    const weft_shape *a = &graph_tensor_at(g, dst)->shape, *b = &graph_tensor_at(g, src)->shape;
    bool found = false;
    for (uint32_t k = 0; k < old->nout; k++)
        found |= old->out[k] == dst;
    if (!found)
        return err_fail(WEFT_USAGE, "a replacement of %s assigns %s, which is not an output of it",
                        old->id, graph_tensor_at(g, dst)->name);
    if (a->dtype != b->dtype || !graph_same_axes(a, b))
        return err_fail(WEFT_USAGE,
                        "a replacement of %s assigns %s a tensor of another shape or type", old->id,
                        graph_tensor_at(g, dst)->name);
    return WEFT_OK;
}

static weft_status b_assign(void *ctx, weft_tensor dst, weft_tensor src, uint32_t flags)
{
    graph *g = ctx;
    weft_status st = graph_check_call(g, CALL_ASSIGN, flags);
    if (st == WEFT_OK)
        st = graph_check_tensor(g, "builder.assign", "dst", dst);
    if (st == WEFT_OK)
        st = graph_check_tensor(g, "builder.assign", "src", src);
    if (st != WEFT_OK)
        return st;
    const uint32_t kind = graph_tensor_at(g, dst)->kind;
    if (!g->now.replacing && kind != WEFT_T_PARAM && kind != WEFT_T_STATE && kind != WEFT_T_SCALAR)
        return err_fail(WEFT_USAGE,
                        "%s is neither parameter, state nor scalar: it cannot be assigned",
                        graph_tensor_at(g, dst)->name);
    st = g->now.replacing ? check_stand_in(g, dst, src) : graph_check_assigned(g, dst, src);
    if (st != WEFT_OK)
        return st;
    graph_node *n = graph_add_node(g, "assign", 0, 1, 1);
    n->assign = true;
    n->in[0] = src;
    n->out[0] = dst;
    return WEFT_OK;
}

static weft_status b_fail(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    const bool none = (int)code <= WEFT_BUSY || (int)code > WEFT_INTERNAL;
    text = text && *text ? text : "no reason given";
    return none ? err_fail(WEFT_INTERNAL,
                           "%.1000s (reported with status %d, which is not a failure)", text,
                           (int)code)
                : err_fail(code, "%.1000s", text);
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
                          graph_state,
                          b_op,
                          graph_comm,
                          b_assign,
                          b_fail};
}
