/* check/op/ask.c: calls of an op's functions with memory that ends where it may, and an example in
 * a graph of its own. */
#include "base/err.h"
#include "check/op/op.h"

#include <stdio.h>
#include <string.h>

#define PATTERN 0x5a /* of what a function may not write */

void check_op_quiet(const check_op *of)
{
    err_clear();
    check_host_clear(of->host);
}

void check_op_answered(const check_op *of, const char *call, weft_status st, char why[1024])
{
    if ((uint32_t)st > WEFT_INTERNAL || st == WEFT_BUSY)
        check_fail("%s() of '%s' returned %d: it may return WEFT_OK or a failure of weft/base.h",
                   call, of->c->name, (int)st);
    snprintf(why, 1024, "%s", st == WEFT_OK ? "" : of->host->why[0] ? of->host->why : err_text());
}

/* A copy at the end of a page; of nothing, a pointer that cannot be read. */
static void *lend(const void *from, size_t bytes)
{
    return check_guard(from, bytes);
}

static bool is_pattern(const weft_shape *s)
{
    const unsigned char *at = (const unsigned char *)s;
    for (size_t i = 0; i < sizeof *s; i++)
        if (at[i] != PATTERN)
            return false;
    return true;
}

static void check_capacity(const check_op *of, const weft_shape *out, uint32_t capacity)
{
    for (uint32_t i = capacity; i < WEFT_MAX_OPERANDS; i++)
        if (!is_pattern(&out[i]))
            check_fail("infer() of '%s' wrote result %u, where *nout was %u on entry: that is the "
                       "room for results, which it may not exceed",
                       of->c->name, i, capacity);
}

void check_op_infer(const check_op *of, const weft_shape *in, uint32_t nin, const weft_attr *attrs,
                    uint32_t nattr, uint32_t capacity, check_op_answer *a)
{
    graph g;
    graph_mesh none = {0};
    graph_init(&g, &none, (graph_ops){0}, WEFT_F32, WEFT_F32);
    g.now.looking = "infer"; /* builder calls that append are refused */
    const weft_builder b = graph_builder(&g);
    const weft_op_self self = {sizeof self, 0, of->module, of->conf, &b};
    const size_t all = WEFT_MAX_OPERANDS * sizeof *a->out;
    const weft_shape *lent_in = lend(in, nin * sizeof *in);
    const weft_attr *lent_attrs = lend(attrs, nattr * sizeof *attrs);
    weft_shape *out = lend(NULL, all);
    memset(out + capacity, PATTERN, all - capacity * sizeof *out);
    check_op_quiet(of);
    a->nout = capacity;
    a->st = PLUGIN_GET(of->table, infer, &self, lent_attrs, nattr, lent_in, nin, out, &a->nout);
    check_op_answered(of, "infer", a->st, a->why);
    check_capacity(of, out, capacity);
    memcpy(a->out, out, all);
    check_guard_free((void *)(uintptr_t)lent_in, nin * sizeof *in);
    check_guard_free((void *)(uintptr_t)lent_attrs, nattr * sizeof *attrs);
    check_guard_free(out, all);
    graph_free(&g);
}

void check_op_build(const check_op_example *e, uint32_t kind, check_op_graph *x)
{
    memset(x, 0, sizeof *x);
    x->ranks = (graph_mesh){.n = 1, .name = {"mesh"}, .size = {2}};
    graph_init(&x->g, &x->ranks, e->call.ops, WEFT_F32, WEFT_F32);
    x->g.now.phase = PHASE_FORWARD;
    check_op_quiet(e->of);
    for (uint32_t i = 0; i < e->nin; i++) {
        const bool real = e->in[i].dtype == WEFT_F32;
        x->in[i] =
            graph_add(&x->g, e->call.form->in[i].name, real ? kind : WEFT_T_INPUT, &e->in[i]);
    }
    const weft_builder b = graph_builder(&x->g);
    if (b.op(b.ctx, e->of->c->name, e->attrs, e->nattr, x->in, e->nin, 0, x->out, e->nout) !=
        WEFT_OK)
        check_fail("a graph cannot have '%s' in %s: %s", e->of->c->name, e->text, err_text());
}

/* Both parts, as a plan asks for them. */
static weft_status ask_grad(const check_op_example *e, uint32_t from, const weft_opcall *call,
                            check_op_graph *x)
{
    static const uint32_t parts[] = {WEFT_GRAD_INPUTS, WEFT_GRAD_PARAMS};
    const weft_builder b = graph_builder(&x->g);
    const weft_op_self self = {sizeof self, 0, e->of->module, e->of->conf, &b};
    weft_tensor din[WEFT_MAX_OPERANDS] = {0};
    weft_status st = WEFT_OK;
    char why[1024];
    for (uint32_t i = 0; st == WEFT_OK && i < 2; i++) {
        x->g.now.phase = i ? PHASE_PARAMS : PHASE_INPUTS;
        x->g.now.deriving = e->of->c->name;
        x->g.calls = 0;
        check_op_quiet(e->of);
        st = PLUGIN_GET(e->of->table, grad, &self, call, parts[i], din);
        x->g.now.deriving = NULL;
        check_op_answered(e->of, "grad", st, why);
        if (st != WEFT_OK && !*why)
            check_fail("grad() of '%s' returned %s without a sentence, where dout[] has a gradient "
                       "for the outputs of the bits 0x%x alone",
                       e->of->c->name, check_status(st), from);
        memcpy(x->din[i], din, sizeof din);
    }
    return st;
}

weft_status check_op_derive(const check_op_example *e, uint32_t kind, uint32_t from,
                            check_op_graph *x)
{
    check_op_build(e, kind, x);
    for (uint32_t k = 0; k < e->nout; k++) {
        const weft_shape s = graph_tensor_at(&x->g, x->out[k])->shape;
        if (from >> k & 1)
            x->dout[k] = graph_add(&x->g, "flows.in", WEFT_T_ACTIVATION, &s);
    }
    const graph_node n = x->g.nodes.at[0]; /* a copy: the array grows below */
    const weft_opcall call = {.struct_size = sizeof call,
                              .nattr = n.nattr,
                              .attrs = n.attrs,
                              .nin = n.nin,
                              .nout = n.nout,
                              .in = n.in,
                              .out = n.out,
                              .dout = x->dout};
    return ask_grad(e, from, &call, x);
}
