/* check/op/refuse.c: calls that an op does not take are refused with a sentence.
 *
 * What it takes is what its doc says. An element type may be refused later, by every kernel of the
 * file, because devices differ in their types. */
#include "check/op/op.h"

#include <weft/device.h>

#include <stdio.h>
#include <string.h>

typedef struct change { /* an example with one thing wrong */
    check_op_example e;
    char what[160]; /* "input 1 with an axis more" */
    bool of_type;
} change;

static void operand_of(const weft_shape *s, weft_operand *o)
{
    *o = (weft_operand){.dtype = s->dtype, .rank = s->rank};
    for (uint32_t k = 0; k < s->rank; k++)
        o->size[k] = s->axes[k].size;
}

/* Whether the file has kernels of the op, and each refuses the call with a sentence. */
static bool kernels_refuse(const change *x, const check_op_answer *a)
{
    const check_op *of = x->e.of;
    weft_operand in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    bool any = false;
    for (uint32_t i = 0; i < x->e.nin; i++)
        operand_of(&x->e.in[i], &in[i]);
    for (uint32_t i = 0; i < a->nout; i++)
        operand_of(&a->out[i], &out[i]);
    const weft_opspec spec = {.struct_size = sizeof spec,
                              .id = of->c->name,
                              .attrs = x->e.attrs,
                              .nattr = x->e.nattr,
                              .nin = x->e.nin,
                              .nout = a->nout,
                              .in = in,
                              .out = out};
    for (uint32_t i = 0; i < of->run->n; i++) {
        const host_component *c = of->run->components[i];
        const weft_kernel *k = c->table;
        if (strcmp(c->iface, "weft.kernel/1") || strcmp(k->op, of->c->name))
            continue;
        weft_requirements need = {.struct_size = sizeof need};
        any = true;
        check_op_quiet(of);
        if (PLUGIN_GET(k, query, of->module, check_conf(of->host, c), &spec, &need) == WEFT_OK ||
            !of->host->why[0])
            return false;
    }
    return any;
}

static void must_refuse(const change *x)
{
    const check_op *of = x->e.of;
    check_op_answer a;
    check_op_infer(of, x->e.in, x->e.nin, x->e.attrs, x->e.nattr, x->e.nout, &a);
    if (a.st == WEFT_OK && x->of_type && kernels_refuse(x, &a))
        return;
    if (a.st == WEFT_OK)
        check_fail("infer() of '%s' takes %s, where its doc says otherwise: '%s'; it has to "
                   "refuse that with WEFT_USAGE and a sentence by self->b->fail()%s",
                   of->c->name, x->what, of->doc->text.operands,
                   x->of_type ? ", or each kernel of the file in query()" : "");
    if (!*a.why)
        check_fail("infer() of '%s' refuses %s with %s, but without a sentence: say by "
                   "self->b->fail() what is wrong",
                   of->c->name, x->what, check_status(a.st));
}

/* Whether a form of the op has so many inputs. */
static bool takes(const describe_doc *d, uint32_t nin)
{
    describe_doc_call calls[GRAPH_DOC_CALLS];
    const uint32_t n = describe_doc_calls(d, calls);
    for (uint32_t i = 0; i < n; i++)
        if (calls[i].nin == nin)
            return true;
    return false;
}

static void numbers(const check_op_example *e)
{
    static change x;
    for (uint32_t nin = 0; nin <= e->nin + 1 && nin <= WEFT_MAX_OPERANDS; nin++) {
        x = (change){.e = *e};
        x.e.nin = nin;
        if (nin > e->nin && e->nin)
            x.e.in[e->nin] = e->in[e->nin - 1];
        else if (nin > e->nin)
            x.e.in[0] = (weft_shape){.dtype = WEFT_F32, .rank = 1, .axes = {{"tokens", 16}}};
        snprintf(x.what, sizeof x.what, "%u inputs", nin);
        if (!takes(e->of->doc, nin))
            must_refuse(&x);
    }
}

/* The axes that an operand has at least: groups may be empty. */
static uint32_t least(const describe_doc_operand *o)
{
    return o->n - (uint32_t)__builtin_popcount(o->group);
}

/* Whether a form with as many inputs has input i with this number of axes, and of this type. */
static bool allows(const check_op_example *e, uint32_t i, uint32_t rank, uint32_t dtype)
{
    describe_doc_call calls[GRAPH_DOC_CALLS];
    const uint32_t n = describe_doc_calls(e->of->doc, calls);
    bool found = false;
    for (uint32_t c = 0; c < n; c++) {
        const describe_doc_operand *o = &calls[c].form->in[i];
        const uint32_t type = o->type == 'i' ? WEFT_I32 : o->type == 'l' ? WEFT_I64 : WEFT_F32;
        if (calls[c].nin == e->nin && (o->type == 'x' || type == dtype))
            found |= o->group ? rank >= least(o) : rank == o->n;
    }
    return found;
}

/* An axis more where the operand has no group, and one axis less than it has to have. Elementwise
 * ops take scalars. */
static void ranks(const check_op_example *e)
{
    static change x;
    const bool elementwise = e->of->table->flags & WEFT_OP_ELEMENTWISE;
    for (uint32_t i = 0; i < e->nin; i++)
        for (uint32_t more = 0; more < 2; more++) {
            const describe_doc_operand *o = &e->call.form->in[i];
            x = (change){.e = *e};
            weft_shape *s = &x.e.in[i];
            if (more ? s->rank == WEFT_MAX_AXES || o->group : !least(o) || elementwise)
                continue;
            if (more)
                s->axes[s->rank] = (weft_axis){"check", 2};
            s->rank = more ? s->rank + 1 : least(o) - 1;
            snprintf(x.what, sizeof x.what, "input %u (%s) with %u axes", i, o->name, s->rank);
            if (!allows(e, i, s->rank, s->dtype))
                must_refuse(&x);
        }
}

static void types(const check_op_example *e)
{
    static change x;
    for (uint32_t i = 0; i < e->nin; i++) {
        x = (change){.e = *e, .of_type = true};
        x.e.in[i].dtype = e->in[i].dtype == WEFT_F32 ? WEFT_I32 : WEFT_F32;
        snprintf(x.what, sizeof x.what, "input %u (%s) with elements of %s", i,
                 e->call.form->in[i].name, x.e.in[i].dtype == WEFT_I32 ? "int32" : "fp32");
        if (!allows(e, i, e->in[i].rank, x.e.in[i].dtype))
            must_refuse(&x);
    }
}

static void attributes(const check_op_example *e)
{
    static change x;
    for (uint32_t i = 0; i < e->nattr; i++) {
        x = (change){.e = *e};
        x.e.nattr--;
        memmove(&x.e.attrs[i], &x.e.attrs[i + 1], (e->nattr - i - 1) * sizeof *x.e.attrs);
        snprintf(x.what, sizeof x.what, "a call without the attribute %s", e->attrs[i].key);
        if (e->of->doc->attr[i].required)
            must_refuse(&x);
    }
}

static void one(const check_op_example *e)
{
    numbers(e);
    ranks(e);
    types(e);
    attributes(e);
}

void check_op_refuses(check_run *r)
{
    check_op_examples(r, false, NULL, "", one);
}
