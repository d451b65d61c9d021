/* ops/facts.c: the words that the forms of `weft ops` share. */
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

const ops_variant *ops_without(const ops_facts *f, const ops_variant *v)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->variant[i].call.form == v->call.form && f->variant[i].call.nin < v->call.nin)
            return &f->variant[i];
    return NULL;
}

const char *ops_shape(const describe_doc *d, const describe_doc_operand *o,
                      char text[GRAPH_DOC_TEXT])
{
    size_t used = (size_t)snprintf(text, GRAPH_DOC_TEXT, o->n ? "[" : "scalar");
    for (uint32_t k = 0; k < o->n && used < GRAPH_DOC_TEXT; k++)
        used += (size_t)snprintf(text + used, GRAPH_DOC_TEXT - used, "%s%s%s%s", k ? ", " : "",
                                 describe_doc_axis(d, o, k), o->group >> k & 1 ? ".." : "",
                                 k + 1 == o->n ? "]" : "");
    return text;
}

const char *ops_type(char letter)
{
    switch (letter) {
    case 'c': return "compute";
    case 'g': return "gradient";
    case 'f': return "fp32";
    case 'i': return "int32";
    case 'l': return "int64";
    default: return "any";
    }
}

const char *ops_set(const describe_doc_operand *o, uint32_t bits, char text[GRAPH_DOC_TEXT])
{
    size_t used = 0;
    *text = 0;
    for (uint32_t i = 0; i < WEFT_MAX_OPERANDS && used < GRAPH_DOC_TEXT; i++)
        if (bits >> i & 1)
            used += (size_t)snprintf(text + used, GRAPH_DOC_TEXT - used, "%s%s", used ? ", " : "",
                                     o[i].name);
    return text;
}

const char *ops_cause(const ops_variant *v, const describe_doc_row *r, char text[GRAPH_DOC_TEXT])
{
    const describe_doc *d = v->call.doc;
    if (*r->split) {
        const char *first = d->axis[r->split[0] - 'A'][0];
        const char *second = r->split[1] ? d->axis[r->split[1] - 'A'][0] : "";
        snprintf(text, GRAPH_DOC_TEXT, "split along %s%s%s", first, *second ? " and " : "", second);
        return text;
    }
    char names[GRAPH_DOC_TEXT];
    ops_set(v->call.form->in, r->partial, names);
    const bool one = !(r->partial & (r->partial - 1));
    snprintf(text, GRAPH_DOC_TEXT, "partial sum%s %.400s", one ? "" : "s", names);
    return text;
}

static const describe_doc_row *same_row(const ops_variant *v, const describe_doc_row *r)
{
    for (uint32_t i = 0; i < v->nrows; i++)
        if (!strcmp(v->row[i].split, r->split) && v->row[i].partial == r->partial)
            return &v->row[i];
    return NULL;
}

const char *ops_result(const ops_facts *f, const ops_variant *v, const describe_doc_row *r,
                       char text[OPS_RESULT])
{
    static const describe_doc_row refused = {.accepted = false};
    char with[GRAPH_DOC_TEXT], without[GRAPH_DOC_TEXT] = "";
    const describe_doc_form *form = v->call.form;
    const ops_variant *w = ops_without(f, v);
    const describe_doc_row *here = same_row(v, r), *there = w ? same_row(w, r) : NULL;
    describe_doc_row_text(&f->doc, form, here ? here : &refused, with);
    const bool has = w && !(r->partial >> w->call.nin); /* the row does without that input */
    if (has)
        describe_doc_row_text(&f->doc, form, there ? there : &refused, without);
    if (has && strcmp(with, without))
        snprintf(text, OPS_RESULT, "%s; without %s: %s", with, form->in[v->call.nin - 1].name,
                 without);
    else
        snprintf(text, OPS_RESULT, "%s", with);
    return text;
}

void ops_rows(const ops_facts *f, const ops_variant *v, ops_each_row each)
{
    const ops_variant *w = ops_without(f, v);
    for (uint32_t i = 0; i < v->nrows; i++)
        each(f, v, &v->row[i]);
    for (uint32_t i = 0; w && i < w->nrows; i++)
        if (!same_row(v, &w->row[i]))
            each(f, v, &w->row[i]);
}

const char *ops_gradient(const ops_variant *v, uint32_t i)
{
    const bool input = v->gradient.inputs >> i & 1, param = v->gradient.params >> i & 1;
    return input && param ? "yes" : input ? "as activation" : param ? "as parameter" : "-";
}

const char *ops_formula(const describe_doc *d, char text[2 * GRAPH_DOC_TEXT])
{
    const char *p = d->text.formula ? d->text.formula : "negligible";
    size_t used = 0;
    for (; *p && used < 2 * GRAPH_DOC_TEXT - WEFT_MAX_NAME; p++) {
        const bool letter = *p >= 'A' && *p <= 'Z' && (p == d->text.formula || p[-1] == ' ') &&
                            (!p[1] || strchr(" ;", p[1])) && d->axis[*p - 'A'][0][0];
        used += (size_t)snprintf(text + used, 2 * GRAPH_DOC_TEXT - used, "%.*s",
                                 letter ? WEFT_MAX_NAME : 1, letter ? d->axis[*p - 'A'][0] : p);
    }
    text[used] = 0;
    return text;
}

void ops_flags(const ops_facts *f, const char *prefix)
{
    const weft_op *op = f->op;
    const describe_doc_form *form = &f->doc.form[0];
    if (op->flags & WEFT_OP_ELEMENTWISE)
        printf("%selementwise, operation %u: fused with its neighbours; operands may be scalars\n",
               prefix, op->ew);
    if (op->flags & WEFT_OP_ACCUMULATES)
        printf("%skernels can add to its outputs\n", prefix);
    if (op->flags & WEFT_OP_SHAPE_LAST)
        printf("%sof the last input only the shape is used\n", prefix);
    if (op->in_place && op->in_place <= form->nin)
        printf("%s%s may overwrite %s\n", prefix, form->out[0].name,
               form->in[op->in_place - 1].name);
    if (op->first_input && op->first_input <= form->nin &&
        op->first_axis < form->in[op->first_input - 1].n) {
        const describe_doc_operand *o = &form->in[op->first_input - 1];
        if (op->flags & WEFT_OP_NUMBERED)
            printf("%skernels get the attributes \"seed\", \"first\" and \"whole.K\", ints: "
                   "run.seed, the number of the rank's first element in the whole %s, and the "
                   "size of the whole axis K\n",
                   prefix, o->name);
        else
            printf("%skernels get the attribute \"first\", an int: where the rank's part of the "
                   "axis %s of %s begins; 0 where it is whole\n",
                   prefix, describe_doc_axis(&f->doc, o, op->first_axis), o->name);
    }
}
