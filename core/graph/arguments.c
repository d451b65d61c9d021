/* graph/arguments.c: the checks of arguments.h. */
#include "graph/arguments.h"

#include "base/err.h"
#include "base/sized.h"

#include <stdio.h>
#include <string.h>

/* --- which call may be made where --- */

#define IN_MODEL (1u << 0)
#define IN_REPLACEMENT (1u << 1)
#define IN_GRADIENT (1u << 2)
#define IN_RULE (1u << 3)
#define IN_LIST (1u << 4)
#define ANYWHERE (IN_MODEL | IN_REPLACEMENT | IN_GRADIENT | IN_RULE | IN_LIST)

static const char *const places[] = {"a model", "a replacement", "the gradient of an op",
                                     "an update rule", "a list"};

static const struct {
    const char *name;
    uint32_t where;
} calls[] = {
    {"block", IN_MODEL},
    {"input", IN_MODEL | IN_REPLACEMENT},
    {"param", IN_MODEL | IN_REPLACEMENT},
    {"scalar", ANYWHERE},
    {"constant", ANYWHERE},
    {"state", IN_RULE | IN_LIST},
    {"op", ANYWHERE},
    {"comm", ANYWHERE},
    {"assign", ANYWHERE & ~IN_GRADIENT},
};

static uint32_t place_of(const graph *g)
{
    if (g->now.replacing)
        return 1;
    if (g->now.deriving)
        return 2;
    return !g->now.state_of ? 0 : *g->now.state_of ? 3 : 4;
}

static weft_status misplaced(const char *call, uint32_t where, uint32_t here)
{
    char legal[128] = "";
    for (uint32_t i = 0; i < sizeof places / sizeof *places; i++)
        if (where >> i & 1) {
            const size_t used = strlen(legal);
            snprintf(legal + used, sizeof legal - used, "%s%s", used ? ", " : "", places[i]);
        }
    return err_fail(WEFT_USAGE, "builder.%s() is called in %s; it may be called in: %s", call,
                    places[here], legal);
}

weft_status graph_check_call(graph *g, uint32_t call, uint32_t flags)
{
    const uint32_t number = (uint32_t)__builtin_ctz(call);
    const char *name = calls[number].name;
    if (!g)
        return err_fail(WEFT_USAGE, "builder.%s() is called with ctx NULL; pass the builder's own",
                        name);
    if (g->now.looking)
        return err_fail(WEFT_USAGE,
                        "builder.%s() is called in %s(), which may look at tensors only", name,
                        g->now.looking);
    const uint32_t here = place_of(g);
    if (!(calls[number].where >> here & 1))
        return misplaced(name, calls[number].where, here);
    if (g->rows && !g->blocks.n && call != CALL_BLOCK)
        return err_fail(WEFT_USAGE,
                        "builder.%s() comes before builder.block(): all of a model is in blocks",
                        name);
    const uint32_t max = g->now.deriving ? GRAPH_MAX_CALLS_GRADIENT : GRAPH_MAX_CALLS;
    if (here && ++g->calls > max)
        return err_fail(
            WEFT_NO_MEMORY,
            "builder.%s() in %s: plugins have called the builder %u times for this graph, "
            "which is the limit; check for an endless loop",
            name, places[here], max);
    char whole[64];
    if (!flags)
        return WEFT_OK;
    snprintf(whole, sizeof whole, "builder.%s", name);
    return sized_check_flags(whole, flags, 0);
}

/* --- pointers and text --- */

weft_status graph_check_pointer(const char *call, const char *what, const void *p)
{
    return p ? WEFT_OK : err_fail_in(WEFT_USAGE, ERR_CALL, call, "%s is NULL", what);
}

weft_status graph_check_text(const char *call, const char *what, const char *text, size_t max)
{
    if (!text)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call, "%s is NULL", what);
    const size_t n = strnlen(text, max + 1);
    if (!n)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call, "%s is empty", what);
    if (n > max)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call, "%s, '%.40s...', is longer than %zu bytes",
                           what, text, max);
    for (size_t i = 0; i < n; i++)
        if (text[i] < 32 || text[i] > 126)
            return err_fail_in(WEFT_USAGE, ERR_CALL, call,
                               "%s has the byte 0x%02x, which is not printable ASCII", what,
                               (unsigned)(unsigned char)text[i]);
    return WEFT_OK;
}

weft_status graph_check_name(const char *call, const char *what, const char *name)
{
    weft_status st = graph_check_text(call, what, name, WEFT_MAX_NAME - 1);
    if (st == WEFT_OK && (strpbrk(name, "*|") || *name == '@' || *name == '!'))
        st = err_fail_in(WEFT_USAGE, ERR_CALL, call,
                         "%s, '%s', has a '*' or '|' or begins with '@' or '!', which names of "
                         "edits use as signs",
                         what, name);
    return st;
}

/* --- shapes and tensors --- */

static weft_status check_axis(const char *call, const char *of, const weft_shape *s, uint32_t i,
                              uint64_t *elements)
{
    const weft_axis *axis = &s->axes[i];
    char what[2 * WEFT_MAX_NAME];
    snprintf(what, sizeof what, "the name of axis %u of %s", i, of);
    weft_status st = graph_check_name(call, what, axis->name);
    if (st != WEFT_OK)
        return st;
    if (axis->size < 1 || __builtin_mul_overflow(*elements, (uint64_t)axis->size, elements) ||
        *elements > INT64_MAX / 64)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call,
                           "axis %u of %s, '%s', is empty or too large: %lld", i, of, axis->name,
                           (long long)axis->size);
    for (uint32_t k = 0; k < i; k++)
        if (!strcmp(s->axes[k].name, axis->name))
            return err_fail_in(WEFT_USAGE, ERR_CALL, call,
                               "%s has the axis '%s' twice: name them apart", of, axis->name);
    return WEFT_OK;
}

weft_status graph_check_shape(const char *call, const char *of, const weft_shape *s)
{
    uint64_t elements = 1;
    weft_status st = graph_check_pointer(call, "shape", s);
    if (st == WEFT_OK && s->rank > WEFT_MAX_AXES)
        st = err_fail_in(WEFT_USAGE, ERR_CALL, call, "%s has %u axes; at most %d are possible", of,
                         s->rank, WEFT_MAX_AXES);
    for (uint32_t i = 0; st == WEFT_OK && i < s->rank; i++)
        st = check_axis(call, of, s, i, &elements);
    if (st == WEFT_OK && s->dtype && !weft_dtype_size(s->dtype))
        st = err_fail_in(WEFT_UNSUPPORTED, ERR_CALL, call, "%s has the unknown element type %u", of,
                         s->dtype);
    return st != WEFT_OK ? st : sized_check_flags(call, s->flags | s->reserved, 0);
}

weft_status graph_check_tensor(const graph *g, const char *call, const char *what, weft_tensor t)
{
    if (t < 1 || t > g->tensors.n)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call, "%s: the graph has no tensor number %u",
                           what, t);
    const graph_tensor *x = graph_tensor_at(g, t);
    const bool listed = x->kind == WEFT_T_PARAM || x->kind == WEFT_T_STATE ||
                        x->kind == WEFT_T_SCALAR ||
                        (x->kind == WEFT_T_ACTIVATION && t > g->now.list_after);
    if (g->now.state_of && !*g->now.state_of && !listed)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call,
                           "%s is %s, which no longer exists when a list runs; it works on "
                           "parameters, states and scalars",
                           what, x->name);
    return WEFT_OK;
}

weft_status graph_check_assigned(const graph *g, weft_tensor dst, weft_tensor src)
{
    const graph_tensor *to = graph_tensor_at(g, dst), *from = graph_tensor_at(g, src);
    const weft_shape *a = &to->shape, *b = &from->shape;
    const bool rounds =
        to->kind == WEFT_T_STATE && weft_dtype_computes(a->dtype) && weft_dtype_computes(b->dtype);
    const bool like = graph_same_axes(a, b) && (!g->now.state_of || a->dtype == b->dtype || rounds);
    if (to->constant)
        return err_fail(WEFT_USAGE, "builder.assign(): %s is a constant", to->name);
    if (!like)
        return err_fail(WEFT_USAGE,
                        "builder.assign(): %s cannot take %s, a tensor of another shape or "
                        "type",
                        to->name, from->name);
    return WEFT_OK;
}

/* --- ops --- */

#define MAX_ATTR_BYTES 4096u

static weft_status check_attr_bytes(const char *id, const weft_attr *a)
{
    if (a->flags)
        return err_fail(
            WEFT_UNSUPPORTED,
            "builder.op(): the attribute '%s' of %s has the flags 0x%x; this version of "
            "weft knows none",
            a->key, id, a->flags);
    if (a->bytes > MAX_ATTR_BYTES || (a->bytes && !a->data))
        return err_fail(WEFT_USAGE,
                        "builder.op(): the attribute '%s' of %s has %u bytes at %s; at most %u are "
                        "possible, and not at NULL",
                        a->key, id, a->bytes, a->data ? "an address" : "NULL", MAX_ATTR_BYTES);
    return WEFT_OK;
}

weft_status graph_check_attrs(const char *id, const weft_attr *attrs, uint32_t n)
{
    if (n > GRAPH_MAX_ATTRS)
        return err_fail(WEFT_USAGE, "builder.op(): %s has %u attributes; at most %u are possible",
                        id, n, GRAPH_MAX_ATTRS);
    weft_status st = n ? graph_check_pointer("builder.op", "attrs", attrs) : WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        st = graph_check_text("builder.op", "the key of an attribute", attrs[i].key,
                              WEFT_MAX_NAME - 1);
        for (uint32_t k = 0; st == WEFT_OK && k < i; k++)
            if (!strcmp(attrs[k].key, attrs[i].key))
                st = err_fail(WEFT_USAGE, "builder.op(): %s has the attribute '%s' twice", id,
                              attrs[i].key);
        if (st == WEFT_OK)
            st = check_attr_bytes(id, &attrs[i]);
    }
    return st;
}

/* How many operands an elementwise op reads; 0: there is no such op. */
static uint32_t operands(uint32_t ew)
{
    switch (ew) {
    case WEFT_EW_ADD:
    case WEFT_EW_SUB:
    case WEFT_EW_MUL:
    case WEFT_EW_DIV:
    case WEFT_EW_MIN:
    case WEFT_EW_MAX:
    case WEFT_EW_POW:
    case WEFT_EW_LESS: return 2;
    case WEFT_EW_SELECT: return 3;
    default: return ew >= WEFT_EW_COPY && ew <= WEFT_EW_FLOOR && ew != WEFT_EW_CONST ? 1 : 0;
    }
}

/* A copy may name and group its axes otherwise. */
static bool as_many(const weft_shape *a, const weft_shape *b)
{
    return graph_shape_elements(a) == graph_shape_elements(b);
}

static weft_status check_elementwise(const weft_op *op, const char *id, const weft_shape *in,
                                     uint32_t nin, const weft_shape *out, uint32_t nout)
{
    if (!operands(op->ew))
        return err_fail_in(WEFT_USAGE, ERR_OP, id,
                           "its table has ew = %u, which is not an elementwise operation", op->ew);
    if (nin != operands(op->ew) || nout != 1)
        return err_fail_in(WEFT_USAGE, ERR_OP, id,
                           "its table has ew = %u, an operation of %u inputs and one output, but "
                           "it has %u and %u",
                           op->ew, operands(op->ew), nin, nout);
    const bool copy = op->ew == WEFT_EW_COPY;
    for (uint32_t i = 0; i < nin; i++)
        if (in[i].rank && !(copy ? as_many(&in[i], out) : graph_same_axes(&in[i], out)))
            return err_fail_in(WEFT_USAGE, ERR_OP, id,
                               "it is elementwise, but input %u and the output of its infer() have "
                               "not %s",
                               i, copy ? "as many elements" : "the same axes");
    return WEFT_OK;
}

weft_status graph_check_op(const weft_op *op, const char *id, const weft_shape *in, uint32_t nin,
                           const weft_shape *out, uint32_t nout)
{
    const uint32_t flags =
        WEFT_OP_ELEMENTWISE | WEFT_OP_ACCUMULATES | WEFT_OP_SHAPE_LAST | WEFT_OP_NUMBERED;
    const uint32_t first = op->first_input;
    if (op->flags & ~flags)
        return err_fail_in(WEFT_USAGE, ERR_OP, id, "its table has the unknown flags 0x%x",
                           op->flags & ~flags);
    if (first > nin || (first && op->first_axis >= in[first - 1].rank))
        return err_fail_in(WEFT_USAGE, ERR_OP, id,
                           "its table has first_input = %u and first_axis = %u, and the op has no "
                           "such axis",
                           first, op->first_axis);
    if (op->flags & WEFT_OP_NUMBERED && (!first || op->first_axis))
        return err_fail_in(
            WEFT_USAGE, ERR_OP, id,
            "its table has WEFT_OP_NUMBERED, first_input = %u and first_axis = "
            "%u; first_input must name the tensor that is numbered, and first_axis is "
            "0",
            first, op->first_axis);
    return op->flags & WEFT_OP_ELEMENTWISE ? check_elementwise(op, id, in, nin, out, nout)
                                           : WEFT_OK;
}

weft_status graph_check_return(weft_status st, err_subject what, const char *who, const char *call)
{
    if ((int)st < 0 || (int)st > WEFT_INTERNAL || st == WEFT_BUSY)
        return err_fail_in(WEFT_INTERNAL, what, who,
                           "its %s() returned %d, which is not a failure status", call, (int)st);
    return st != WEFT_OK && !*err_text()
               ? err_fail_in(st, what, who, "its %s() failed and gave no reason", call)
               : st;
}

/* What a node of a list is made of: a parameter or state, as "(NAME)"; "": of none. */
static const char *source_of(graph *g, const graph_node *n)
{
    for (uint32_t k = 0; g->now.state_of && !*g->now.state_of && k < n->nin; k++) {
        const graph_tensor *x = graph_tensor_at(g, n->in[k]);
        const char *of = x->kind == WEFT_T_ACTIVATION ? strchr(x->name, '(')
                                                      : pool_printf(&g->pool, "(%s)", x->name);
        if (of && x->kind != WEFT_T_SCALAR)
            return of;
    }
    return "";
}

weft_tensor graph_add_output(graph *g, uint32_t k, const char *name, const weft_shape *shape)
{
    const graph_node *n = &g->nodes.at[g->nodes.n - 1];
    char full[3 * WEFT_MAX_NAME];
    snprintf(full, sizeof full, "%s%s", name, source_of(g, n));
    n->out[k] = graph_add(g, full, WEFT_T_ACTIVATION, shape);
    graph_tensor_at(g, n->out[k])->producer = g->nodes.n;
    return n->out[k];
}

/* The stream of an op that draws; false: it does not draw. The attribute is that of weft's own ops,
 * whose ids are the ones without a dot. */
static bool stream_of(const graph_node *n, int64_t *stream)
{
    if (!n->op || !(n->op->flags & WEFT_OP_NUMBERED) || strchr(n->id, '.'))
        return false;
    *stream = 0;
    for (uint32_t i = 0; i < n->nattr; i++)
        if (!strcmp(n->attrs[i].key, "stream"))
            *stream = n->attrs[i].i;
    return true;
}

weft_status graph_check_stream(const graph *g, const graph_node *n)
{
    int64_t mine, other;
    if (g->now.phase != PHASE_FORWARD || !stream_of(n, &mine))
        return WEFT_OK;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const graph_node *k = &g->nodes.at[i];
        if (k->phase == PHASE_FORWARD && !k->replaced && i + 1 != g->now.replacing &&
            stream_of(k, &other) && other == mine)
            return err_fail_in(WEFT_USAGE, ERR_OP, n->id,
                               "its stream, %lld, is that of op number %u, %s, and would give "
                               "both the same random numbers; give it a name of its own "
                               "(weft_stream_of()), or read the numbers that are there",
                               (long long)mine, i, k->id);
    }
    return WEFT_OK;
}
