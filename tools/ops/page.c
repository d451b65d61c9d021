/* ops/page.c: docs/OPS.md. Elementwise ops that come with weft are one table; every other op has a
 * section. */
#include "ops/ops.h"

#include <stdio.h>

static bool in_table(const ops_facts *f)
{
    return !f->from && f->op->flags & WEFT_OP_ELEMENTWISE && !f->doc.nattrs;
}

/* '|' would end a cell. */
static void put_cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\%c" : "%c", *text);
}

static void print_operands(const ops_facts *f, const ops_variant *v)
{
    char shape[GRAPH_DOC_TEXT];
    const describe_doc_form *form = v->call.form;
    printf("| input | shape | type | gradient |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < form->nin; i++)
        printf("| `%s`%s | %s | %s | %s |\n", form->in[i].name,
               form->in[i].optional ? ", may be absent" : "",
               ops_shape(&f->doc, &form->in[i], shape), ops_type(form->in[i].type),
               ops_gradient(v, i));
    printf("\n| output | shape | type |\n|---|---|---|\n");
    for (uint32_t i = 0; i < form->nout; i++)
        printf("| `%s` | %s | %s |\n", form->out[i].name, ops_shape(&f->doc, &form->out[i], shape),
               ops_type(form->out[i].type));
}

static void print_row(const ops_facts *f, const ops_variant *v, const describe_doc_row *r)
{
    char cause[GRAPH_DOC_TEXT], result[OPS_RESULT];
    printf("| %s | %s |\n", ops_cause(v, r, cause), ops_result(f, v, r, result));
}

static void print_attributes(const describe_doc *d)
{
    if (d->nattrs)
        printf("\n| attribute | type | default | meaning |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < d->nattrs; i++) {
        const describe_doc_attr *a = &d->attr[i];
        char dflt[32] = "required";
        if (!a->required)
            snprintf(dflt, sizeof dflt, "%g", a->dflt);
        printf("| `%s` | %s | %s | %s |\n", a->key, a->real ? "real" : "int", dflt, a->meaning);
    }
}

static weft_status print_section(const ops_facts *f, void *user)
{
    char names[GRAPH_DOC_TEXT], formula[2 * GRAPH_DOC_TEXT];
    (void)user;
    if (in_table(f) || f->from)
        return WEFT_OK;
    printf("\n### %s\n\n%s.\n", f->id, f->doc.text.help);
    for (uint32_t i = 0; i < f->n; i++) {
        const ops_variant *v = &f->variant[i];
        if (v->call.nin < v->call.form->nin)
            continue;
        if (f->doc.nforms > 1)
            printf("\nForm %d of %u:\n", (int)(v->call.form - f->doc.form) + 1, f->doc.nforms);
        puts("");
        print_operands(f, v);
        printf("\n| along a mesh axis | result |\n|---|---|\n");
        ops_rows(f, v, print_row);
        if (v->gradient.from)
            printf("\nGradient of %s; appends %s.\n",
                   ops_set(v->call.form->out, v->gradient.from, names),
                   *v->gradient.ops ? v->gradient.ops : "no op");
    }
    print_attributes(&f->doc);
    puts("");
    if (!f->op->grad)
        puts("- no gradient");
    ops_flags(f, "- ");
    printf("- FLOPs: %s\n", ops_formula(&f->doc, formula));
    return WEFT_OK;
}

static void put_partials(const ops_variant *v)
{
    char names[GRAPH_DOC_TEXT];
    const char *between = "";
    for (uint32_t i = 0; i < v->nrows; i++)
        if (v->row[i].partial) {
            const bool set = v->row[i].partial & (v->row[i].partial - 1);
            ops_set(v->call.form->in, v->row[i].partial, names);
            printf("%s%s%s", between, names, set ? " together" : "");
            between = "; ";
        }
    printf("%s", *between ? "" : "none");
}

static weft_status print_elementwise(const ops_facts *f, void *user)
{
    char names[GRAPH_DOC_TEXT];
    const ops_variant *v = &f->variant[0];
    (void)user;
    if (!in_table(f))
        return WEFT_OK;
    printf("| `%s` | %u | ", f->id, f->op->ew);
    ops_set(v->call.form->in, (1u << v->call.nin) - 1, names);
    printf("%s | ", names);
    put_cell(f->doc.text.help);
    printf(" | ");
    put_partials(v);
    ops_set(v->call.form->in, v->gradient.inputs & v->gradient.params, names);
    printf(" | %s |\n", *names ? names : "none");
    return WEFT_OK;
}

static const char head[] =
    "# Ops and names\n\nWritten by `weft ops --markdown`; a test compares it with the program. "
    "`weft ops NAME` prints one op, `weft ops NAME JOB.ini` also an op of a plugin,\nand "
    "`weft ops --json` all of it for tools. Everything on this page is part of the ABI: "
    "`tests/abi/names.golden` keeps it from changing.\n\n"
    "## How to read it\n\n"
    "Operands are in order. An axis stands under a name that it may have: ops match axes by "
    "equality, and the axes of a model may have other names\n(below). A name with `..` is one "
    "axis or more. Axes of one name are equal in name and size in all operands.\n\n"
    "| type | element types |\n|---|---|\n"
    "| compute | fp32, bf16 or fp16, the same for all compute operands of the op |\n"
    "| gradient | fp32 or the compute type |\n"
    "| fp32, int32, int64 | that |\n"
    "| any | any that the op knows; of a result, what inputs and attributes say |\n\n"
    "An attribute whose key begins with `*` is an axis: the key is its name, the value its number "
    "in the operand.\n\n"
    "*Gradient* says which inputs get one: \"yes\" is in part B (`WEFT_GRAD_INPUTS`) where the "
    "input is an activation, and in part W (`WEFT_GRAD_PARAMS`)\nwhere it is a parameter.\n\n"
    "The rows *along a mesh axis* say how placements pass. \"Split along X\" means that every "
    "input with the axis X is split along it, \"partial sum x\"\nthat x is a partial sum; all "
    "other inputs are whole. Sets of up to three partial sums that are not listed are refused, "
    "and so are two inputs\nsplit along different axes except where a row says so. An axis whose "
    "split is refused is needed whole. Where an op refuses, the core\nfirst completes partial "
    "sums by all-reduce (reduce-scatter where an edit asks for it), then gathers activations that "
    "are split along their first\naxis, and asks again; if the op still refuses, planning fails "
    "with its reason. Whole inputs give whole outputs. A partial maximum is always\ncompleted "
    "first. What one coordinate alone holds stays there.\n\n"
    "FLOPs are the product of the numbers, axes (all axes of a name with `..`) and attributes that "
    "are listed.\n";

weft_status ops_page(const ops_source *s)
{
    fputs(head, stdout);
    printf("\n## Ops\n");
    weft_status st = s->all(s->ctx, print_section, NULL);
    if (st != WEFT_OK)
        return st;
    printf("\n## Elementwise ops\n\nInputs have one shape, or are scalars, which are broadcast. "
           "Element types are fp32, bf16, fp16; where inputs differ, the result is fp32. "
           "Arithmetic is fp32.\nA split along any axis is kept: every input that is not a scalar "
           "is split, and so is the result. The result may overwrite the first input. A\nscalar "
           "that is broadcast has no gradient. The core fuses chains of them into one op `ew` "
           "(`weft_ew_program`), in which a\nstep has the number of its operation; 19 is a "
           "constant, `builder.constant()`.\n\n"
           "| op | number | inputs | result | partial sums that pass | gradients |\n"
           "|---|---|---|---|---|---|\n");
    st = s->all(s->ctx, print_elementwise, NULL);
    return st != WEFT_OK ? st : ops_names_page(s);
}
