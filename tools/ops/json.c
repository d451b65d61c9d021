/* ops/json.c: one op, as `weft ops --json` writes it. Keys are only ever added. */
#include "ops/ops.h"

static json_t *axes_of(const describe_doc *d, const describe_doc_operand *o)
{
    json_t *a = json_array();
    for (uint32_t k = 0; k < o->n; k++)
        json_array_append_new(
            a, json_sprintf("%s%s", describe_doc_axis(d, o, k), o->group >> k & 1 ? ".." : ""));
    return a;
}

/* The word of the operand's pattern (weft/match.h). */
static json_t *pattern_of(const describe_doc_operand *o)
{
    char text[3 * WEFT_MAX_AXES + 4] = {o->type};
    size_t n = 1;
    for (uint32_t k = 0; k < o->n; k++) {
        if (o->group >> k & 1)
            text[n++] = '*';
        text[n++] = o->letter[k];
    }
    text[n] = o->optional ? '?' : 0;
    return json_string(text);
}

static json_t *operand(const describe_doc *d, const describe_doc_operand *o)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:b}", "name", o->name, "type", ops_type(o->type),
                     "axes", axes_of(d, o), "pattern", pattern_of(o), "optional", o->optional);
}

static json_t *names_of(const describe_doc_operand *o, uint32_t bits)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < WEFT_MAX_OPERANDS; i++)
        if (bits >> i & 1)
            json_array_append_new(a, json_string(o[i].name));
    return a;
}

/* One placement of the inputs; "result" is null where shard() refuses. */
static json_t *row(const ops_facts *f, const ops_variant *v, const describe_doc_row *r)
{
    char text[GRAPH_DOC_TEXT];
    json_t *split = json_array();
    for (const char *p = r->split; *p; p++)
        json_array_append_new(split, json_string(f->doc.axis[*p - 'A'][0]));
    describe_doc_row_text(&f->doc, v->call.form, r, text);
    return json_pack("{s:o, s:o, s:o}", "split", split, "partial",
                     names_of(v->call.form->in, r->partial), "result",
                     r->accepted ? json_string(text) : json_null());
}

static json_t *variant(const ops_facts *f, const ops_variant *v)
{
    const describe_doc_form *form = v->call.form;
    json_t *in = json_array(), *out = json_array(), *rows = json_array();
    for (uint32_t i = 0; i < v->call.nin; i++)
        json_array_append_new(in, operand(&f->doc, &form->in[i]));
    for (uint32_t i = 0; i < form->nout; i++)
        json_array_append_new(out, operand(&f->doc, &form->out[i]));
    for (uint32_t i = 0; i < v->nrows; i++)
        json_array_append_new(rows, row(f, v, &v->row[i]));
    json_t *gradient =
        json_pack("{s:o, s:o, s:o, s:s}", "of", names_of(form->out, v->gradient.from), "inputs",
                  names_of(form->in, v->gradient.inputs), "params",
                  names_of(form->in, v->gradient.params), "ops", v->gradient.ops);
    return json_pack("{s:o, s:o, s:o, s:o}", "inputs", in, "outputs", out, "placements", rows,
                     "gradient", gradient);
}

static json_t *attribute(const describe_doc_attr *a)
{
    return json_pack("{s:s, s:s, s:o, s:s}", "key", a->key, "type", a->real ? "real" : "int",
                     "default", a->required ? json_null() : json_real(a->dflt), "meaning",
                     a->meaning);
}

static json_t *flags_of(const weft_op *op)
{
    json_t *a = json_array();
    if (op->flags & WEFT_OP_ELEMENTWISE)
        json_array_append_new(a, json_string("elementwise"));
    if (op->flags & WEFT_OP_ACCUMULATES)
        json_array_append_new(a, json_string("accumulates"));
    if (op->flags & WEFT_OP_SHAPE_LAST)
        json_array_append_new(a, json_string("shape_last"));
    if (op->flags & WEFT_OP_NUMBERED)
        json_array_append_new(a, json_string("numbered"));
    return a;
}

json_t *ops_json(const ops_facts *f)
{
    const weft_op *op = f->op;
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:i, s:i, s:i, s:i}", "id", f->id, "help",
                          f->documented ? f->doc.text.help : f->from->help, "plugin",
                          f->from ? json_string(f->from->manifest->id) : json_null(), "flags",
                          flags_of(op), "ew", (int)op->ew, "in_place", (int)op->in_place,
                          "first_input", (int)op->first_input, "first_axis", (int)op->first_axis);
    if (!f->documented)
        return o;
    json_t *forms = json_array(), *attrs = json_array();
    for (uint32_t i = 0; i < f->n; i++)
        json_array_append_new(forms, variant(f, &f->variant[i]));
    for (uint32_t i = 0; i < f->doc.nattrs; i++)
        json_array_append_new(attrs, attribute(&f->doc.attr[i]));
    json_object_set_new(o, "forms", forms);
    json_object_set_new(o, "attributes", attrs);
    json_object_set_new(o, "flops",
                        f->doc.text.formula ? json_string(f->doc.text.formula) : json_null());
    return o;
}
