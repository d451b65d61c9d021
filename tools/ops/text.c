/* ops/text.c: one op, as `weft ops NAME` prints it. */
#include "ops/ops.h"

#include <stdio.h>

static void print_operands(const ops_facts *f, const ops_variant *v)
{
    char shape[GRAPH_DOC_TEXT];
    const describe_doc_form *form = v->call.form;
    printf("  inputs\n");
    for (uint32_t i = 0; i < form->nin; i++)
        printf("    %-11s %-38s %-9s gradient: %s%s\n", form->in[i].name,
               ops_shape(&f->doc, &form->in[i], shape), ops_type(form->in[i].type),
               ops_gradient(v, i), form->in[i].optional ? "; may be absent" : "");
    printf("  outputs\n");
    for (uint32_t i = 0; i < form->nout; i++)
        printf("    %-11s %-38s %s\n", form->out[i].name, ops_shape(&f->doc, &form->out[i], shape),
               ops_type(form->out[i].type));
}

static void print_row(const ops_facts *f, const ops_variant *v, const describe_doc_row *r)
{
    char cause[GRAPH_DOC_TEXT], result[OPS_RESULT];
    printf("    %-38s %s\n", ops_cause(v, r, cause), ops_result(f, v, r, result));
}

static void print_attributes(const describe_doc *d)
{
    if (d->nattrs)
        printf("  attributes\n");
    for (uint32_t i = 0; i < d->nattrs; i++) {
        const describe_doc_attr *a = &d->attr[i];
        char dflt[32] = "required";
        if (!a->required)
            snprintf(dflt, sizeof dflt, "%g", a->dflt);
        printf("    %-11s %-5s %-9s %s\n", a->key, a->real ? "real" : "int", dflt, a->meaning);
    }
}

void ops_text(const ops_facts *f)
{
    char names[GRAPH_DOC_TEXT], formula[2 * GRAPH_DOC_TEXT];
    printf("%s: %s\n", f->id, f->documented ? f->doc.text.help : f->from->help);
    if (f->from)
        printf("  of %s, %s\n", f->from->manifest->id, f->from->path);
    if (!f->documented) {
        printf("  no more is known: its table has no doc (weft/op.h)\n");
        return;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        const ops_variant *v = &f->variant[i];
        if (v->call.nin < v->call.form->nin)
            continue;
        if (f->doc.nforms > 1)
            printf("  form %d of %u\n", (int)(v->call.form - f->doc.form) + 1, f->doc.nforms);
        print_operands(f, v);
        printf("  along a mesh axis\n");
        ops_rows(f, v, print_row);
        if (v->gradient.from)
            printf("  gradient: of %s; appends %s\n",
                   ops_set(v->call.form->out, v->gradient.from, names),
                   *v->gradient.ops ? v->gradient.ops : "no op");
    }
    print_attributes(&f->doc);
    ops_flags(f, "  ");
    printf("  FLOPs: %s\n", ops_formula(&f->doc, formula));
}
