/* check/op/place.c: refused placements say why, and `whole` names axes that operands have. */
#include "check/op/op.h"

#include "base/err.h"

#include <string.h>

/* Every placement that an input may have: whole, split along each axis, partial, held. */
static uint32_t places_of(const weft_shape *s, weft_place out[WEFT_MAX_AXES + 4])
{
    uint32_t n = 0;
    out[n++] = (weft_place){.kind = WEFT_WHOLE};
    for (uint32_t k = 0; k < s->rank; k++)
        out[n++] = (weft_place){.kind = WEFT_SPLIT, .axis = k};
    out[n++] = (weft_place){.kind = WEFT_PARTIAL_SUM};
    out[n++] = (weft_place){.kind = WEFT_PARTIAL_MAX};
    out[n++] = (weft_place){.kind = WEFT_HELD};
    return n;
}

/* All combinations where there are at most so many, else so many random ones. */
#define COMBINATIONS 4096u

static const char *name_of(weft_place p)
{
    static const char *const names[] = {"whole", "split", "a partial sum", "a partial maximum",
                                        "held by one coordinate"};
    return names[p.kind];
}

static void ask(const check_op_example *e, const check_op_graph *x, const weft_place *in)
{
    const check_op *of = e->of;
    const graph_node *n = &x->g.nodes.at[0];
    weft_place out[WEFT_MAX_OPERANDS] = {0};
    char why[1024];
    const weft_builder b = graph_builder((graph *)(uintptr_t)&x->g);
    const weft_op_self self = {sizeof self, 0, of->module, of->conf, &b};
    const weft_opcall call = {.struct_size = sizeof call,
                              .nattr = n->nattr,
                              .attrs = n->attrs,
                              .nin = n->nin,
                              .nout = n->nout,
                              .in = n->in,
                              .out = n->out};
    check_op_quiet(of);
    const weft_status st = PLUGIN_GET(of->table, shard, &self, &call, "mesh", 2, in, out);
    check_op_answered(of, "shard", st, why);
    for (uint32_t i = 0, odd = 0; st != WEFT_OK && !*why; i++) {
        odd = in[i].kind != WEFT_WHOLE ? i : odd;
        if (i + 1 >= e->nin || in[i].kind != WEFT_WHOLE)
            check_fail("shard() of '%s' refuses placements with %s, but without a sentence (%s; "
                       "input %u, %s, is %s): say by self->b->fail() what it cannot compute on",
                       of->c->name, check_status(st), e->text, odd, e->call.form->in[odd].name,
                       name_of(in[odd]));
    }
}

static void each_placement(const check_op_example *e)
{
    check_op_graph x;
    weft_place choice[WEFT_MAX_OPERANDS][WEFT_MAX_AXES + 4], in[WEFT_MAX_OPERANDS];
    uint32_t n[WEFT_MAX_OPERANDS] = {0};
    uint64_t all = 1, state = e->of->run->seed;
    for (uint32_t i = 0; i < e->nin; i++) {
        n[i] = places_of(&e->in[i], choice[i]);
        all = all > COMBINATIONS ? all : all * n[i];
    }
    check_op_build(e, WEFT_T_ACTIVATION, &x);
    x.g.now.looking = "shard";
    for (uint64_t c = 0; c < all && c < COMBINATIONS; c++) {
        uint64_t left = all > COMBINATIONS ? check_random(&state) : c;
        for (uint32_t i = 0; i < e->nin; i++, left /= n[i - 1])
            in[i] = choice[i][left % n[i]];
        ask(e, &x, in);
    }
    graph_free(&x.g);
}

static bool has_shard(const weft_op *op)
{
    return op->shard;
}

void check_op_says_why(check_run *r)
{
    check_op_examples(r, false, has_shard,
                      "shard(): the core decides by the names of axes, and says why",
                      each_placement);
}

/* --- whole --- */

/* Whether some operand of some form can have the axis. A group has it under further names, too. */
static bool has_axis(const describe_doc *d, const char *name, size_t length)
{
    for (uint32_t f = 0; f < d->nforms; f++)
        for (uint32_t i = 0; i < d->form[f].nin + d->form[f].nout; i++) {
            const describe_doc_form *form = &d->form[f];
            const describe_doc_operand *o =
                i < form->nin ? &form->in[i] : &form->out[i - form->nin];
            for (uint32_t k = 0; k < o->n; k++) {
                const char *axis = describe_doc_axis(d, o, k);
                if (strlen(axis) == length && !strncmp(axis, name, length))
                    return true;
            }
        }
    return false;
}

static void names_axes(const check_op *of)
{
    const char *at = of->table->whole;
    if (!at)
        return;
    if (!of->doc) {
        check_absent(
            "the op '%s' has no doc to read, so the axes that its operands can have are not known",
            of->c->name);
        return;
    }
    for (;; at++) {
        const size_t n = strcspn(at, ",");
        if (!has_axis(of->doc, at, n))
            check_fail("`whole` of '%s' names the axis '%.*s', and no operand in its doc has it: "
                       "the axes are '%s'",
                       of->c->name, (int)n, at, of->doc->text.axes ? of->doc->text.axes : "");
        at += n;
        if (!*at)
            return;
    }
}

void check_op_whole_axes(check_run *r)
{
    bool any = false;
    check_load(r);
    for (uint32_t i = 0; i < r->n; i++)
        any |= !strcmp(r->components[i]->iface, "weft.op/1") &&
               ((const weft_op *)r->components[i]->table)->whole;
    if (!any)
        check_not_applicable("no op of the file has `whole`");
    check_op_each(r, names_axes);
}
