/* check/op/example.c: the ops of a file, and the examples that their docs describe. */
#include "base/err.h"
#include "check/op/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static check_host lent;

static bool is_op(const host_component *c)
{
    return !strcmp(c->iface, "weft.op/1");
}

static void one_op(check_op *of, void (*fn)(const check_op *of))
{
    static describe_doc doc;
    of->table = of->c->table;
    of->conf = check_conf(of->host, of->c);
    of->doc = describe_doc_read(of->c->name, of->table, &doc) == WEFT_OK ? &doc : NULL;
    fn(of);
}

void check_op_each(check_run *r, void (*fn)(const check_op *of))
{
    const weft_manifest *m = check_manifest(r);
    check_op of = {.run = r, .host = &lent};
    check_host_begin(&lent, "the host");
    if (check_open(m, &lent, &of.module) != WEFT_OK)
        check_fail("open() failed: %s", lent.why);
    for (uint32_t i = 0; i < r->n; i++)
        if (is_op(of.c = r->components[i]))
            one_op(&of, fn);
    check_close(m, of.module);
    check_host_end(&lent);
}

/* Ops that grad() may append: of the file, or weft's own. */
static const weft_op *find_op(void *ctx, const char *id, weft_op_self *self)
{
    const check_op *of = ctx;
    for (uint32_t i = 0; i < of->run->n; i++) {
        const host_component *c = of->run->components[i];
        if (!is_op(c) || strcmp(c->name, id) != 0)
            continue;
        self->module = of->module;
        self->conf = check_conf(of->host, c);
        return c->table;
    }
    const graph_ops others = graph_ops_of(of->run->h);
    return others.find(others.ctx, id, self);
}

/* The examples of graph/describe have axes of up to 4096: 16, 8, 4 and 2 instead. */
static int64_t small_size(int64_t size)
{
    return size == 3 ? 3 : size > 512 ? size / 256 : 2;
}

static void shrink(check_op_example *e)
{
    for (uint32_t i = 0; i < e->nin + e->nout; i++) {
        weft_shape *s = i < e->nin ? &e->in[i] : &e->out[i - e->nin];
        for (uint32_t k = 0; k < s->rank; k++)
            s->axes[k].size = small_size(s->axes[k].size);
    }
    for (uint32_t i = 0; i < e->nattr; i++)
        if (e->of->doc->attr[i].size_of)
            e->attrs[i].i = small_size(e->attrs[i].i);
}

void check_op_unknown(const check_op_example *e, const char *fmt, ...)
{
    char text[1500];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!e->varied)
        check_absent("%s", text);
}

/* "x:[16, 8] w:[8]" */
static void describe(check_op_example *e)
{
    size_t n = (size_t)snprintf(e->text, sizeof e->text, "the example");
    for (uint32_t i = 0; i < e->nin && n < sizeof e->text - 64; i++) {
        n += (size_t)snprintf(e->text + n, sizeof e->text - n, " %s:[", e->call.form->in[i].name);
        for (uint32_t k = 0; k < e->in[i].rank && n < sizeof e->text - 40; k++)
            n += (size_t)snprintf(e->text + n, sizeof e->text - n, "%s%lld", k ? ", " : "",
                                  (long long)e->in[i].axes[k].size);
        n += (size_t)snprintf(e->text + n, sizeof e->text - n, "]");
    }
}

/* Results have the shapes that infer() gives: a doc cannot say that a size is a product. False: the
 * op does not take such small sizes. */
static bool settle(check_op_example *e)
{
    check_op_answer a;
    check_op_infer(e->of, e->in, e->nin, e->attrs, e->nattr, e->nout, &a);
    if (a.st != WEFT_OK || a.nout != e->nout) {
        check_op_unknown(e, "'%s' does not take small sizes (%s): %s", e->of->c->name, e->text,
                         a.why);
        return false;
    }
    memcpy(e->out, a.out, e->nout * sizeof *e->out);
    for (uint32_t i = 0; i < e->nout; i++) /* 0: the type of the job */
        e->out[i].dtype = e->out[i].dtype ? e->out[i].dtype : WEFT_F32;
    return true;
}

static bool make(const check_op *of, const describe_doc_call *call, bool small, check_op_example *e)
{
    *e = (check_op_example){
        .of = of, .call = *call, .nin = call->nin, .nout = call->form->nout, .scale = 1};
    e->call.ops = (graph_ops){find_op, (void *)(uintptr_t)of};
    if (describe_doc_shapes(&e->call, e->in, e->out) != WEFT_OK)
        check_fail("no example can be made from the doc of the op: %s", err_text());
    e->nattr = describe_doc_attrs(&e->call, e->attrs);
    if (small)
        shrink(e);
    describe(e);
    return !small || settle(e);
}

/* Other attributes: numbers grow, and flags, whose default is 0 or 1, change. False: there are
 * none. An op that the new ones do not suit refuses them in infer(). */
static bool vary(check_op_example *e)
{
    size_t n = strlen(e->text);
    for (uint32_t i = 0; i < e->nattr; i++) {
        const describe_doc_attr *a = &e->of->doc->attr[i];
        weft_attr *to = &e->attrs[i];
        const bool flag = !a->real && !a->required && *a->key != '*' && (to->i == 0 || to->i == 1);
        if (!a->real && !flag)
            continue;
        if (a->real)
            to->f = to->f * 1.75 + 0.375;
        else
            to->i = !to->i;
        e->varied = true;
        n += (size_t)snprintf(e->text + n, sizeof e->text - n, " %.40s = %g", to->key,
                              a->real ? to->f : (double)to->i);
        n = n < sizeof e->text ? n : sizeof e->text - 1;
    }
    return e->varied && settle(e);
}

/* An example again, with values of another size; the results of settle() are the same. */
static void scaled(const check_op_example *e, double scale, check_op_use fn)
{
    static check_op_example again;
    again = *e;
    again.scale = scale;
    again.varied = true;
    const size_t n = strlen(again.text);
    snprintf(again.text + n, sizeof again.text - n, ", values times %g", scale);
    fn(&again);
}

static struct {
    bool small, any;
    bool (*wants)(const weft_op *op);
    check_op_use fn;
} now;

static void each_example(const check_op *of)
{
    static check_op_example e;
    describe_doc_call calls[GRAPH_DOC_CALLS];
    if (now.wants && !now.wants(of->table))
        return;
    now.any = true;
    if (!of->doc) {
        check_absent("the op '%s' has no doc%s, so no example of it can be built: set doc in its "
                     "weft_op",
                     of->c->name, of->table->doc ? " that can be read" : "");
        return;
    }
    const uint32_t n = describe_doc_calls(of->doc, calls);
    for (uint32_t i = 0; i < n; i++) {
        if (!make(of, &calls[i], now.small, &e))
            continue;
        now.fn(&e);
        if (!now.small)
            continue;
        scaled(&e, 32, now.fn);
        scaled(&e, 1.0 / 32, now.fn);
        if (vary(&e))
            now.fn(&e);
    }
}

void check_op_examples(check_run *r, bool small, bool (*wants)(const weft_op *op), const char *has,
                       check_op_use fn)
{
    now.small = small;
    now.any = false;
    now.wants = wants;
    now.fn = fn;
    check_op_each(r, each_example);
    if (!now.any)
        check_not_applicable("no op of the file has %s", has);
}

/* --- placements --- */

void check_op_places(const check_op_example *e, const describe_doc_row *row, weft_place *in)
{
    for (uint32_t i = 0; i < e->nin; i++) {
        const describe_doc_operand *o = &e->call.form->in[i];
        in[i] = (weft_place){.kind = row->partial >> i & 1 ? WEFT_PARTIAL_SUM : WEFT_WHOLE};
        for (uint32_t k = 0; k < o->n && in[i].kind == WEFT_WHOLE; k++) /* groups of one axis */
            if (*row->split && strchr(row->split, o->letter[k]))
                in[i] = (weft_place){.kind = WEFT_SPLIT, .axis = k};
    }
}

weft_shape check_op_part(const weft_shape *s, weft_place p)
{
    weft_shape part = *s;
    if (p.kind == WEFT_SPLIT && p.axis < s->rank)
        part.axes[p.axis].size /= 2;
    return part;
}
