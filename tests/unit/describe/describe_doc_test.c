/* Are the docs of the ops that come with weft true?
 *
 * Names of operands are those of the op's own messages, formulas what flops() counts. That infer()
 * takes the documented operands, gives the documented results and refuses what differs from them,
 * the checks of any op ask (ops.docs). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "describe/describe.h"

#include <test.h>

#include "builtin.h"

typedef struct fixture {
    describe_doc doc;
    describe_doc_call call;
    weft_attr attrs[GRAPH_DOC_ATTRS];
    uint32_t nattr;
    weft_shape in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
} fixture;

typedef void (*check)(fixture *f);

/* `c` for every op, form, presence of the optional input, and size of groups. */
static void for_all(check c)
{
    static fixture f;
    const char *id;
    for (uint32_t i = 0; (id = builtin_id(i)); i++) {
        describe_doc_call calls[GRAPH_DOC_CALLS];
        if (describe_doc_read(id, builtin_op(id), &f.doc) != WEFT_OK)
            fail_msg("op %s has no doc that can be read: %s; give its table one (DOC())", id,
                     err_text());
        const uint32_t n = describe_doc_calls(&f.doc, calls);
        assert_in_range(n, 1, GRAPH_DOC_CALLS);
        for (uint32_t k = 0; k < 2 * n; k++) {
            f.call = calls[k / 2];
            f.call.group = 1 + k % 2;
            f.nattr = describe_doc_attrs(&f.call, f.attrs);
            assert_int_equal(describe_doc_shapes(&f.call, f.in, f.out), WEFT_OK);
            c(&f);
        }
    }
}

/* What the builder says of these inputs, which asks the op's infer(). */
static weft_status infer(const fixture *f, const weft_shape *in)
{
    graph g;
    const graph_mesh m = {0};
    weft_tensor x[WEFT_MAX_OPERANDS], y[WEFT_MAX_OPERANDS];
    graph_init(&g, &m, builtin_ops(), WEFT_F32, WEFT_F32);
    for (uint32_t i = 0; i < f->call.nin; i++) {
        char name[16];
        snprintf(name, sizeof name, "in.%u", i);
        x[i] = graph_add(&g, name, WEFT_T_ACTIVATION, &in[i]);
    }
    weft_builder b = graph_builder(&g);
    weft_status st =
        b.op(b.ctx, f->doc.id, f->attrs, f->nattr, x, f->call.nin, 0, y, f->call.form->nout);
    graph_free(&g);
    return st;
}

/* --- names --- */

/* Whether the op makes the axis itself, behind what its signature says: no input has it. */
static bool is_made(const fixture *f, char letter)
{
    bool given = false;
    for (uint32_t i = 0; i < f->call.form->nin; i++)
        given |= memchr(f->call.form->in[i].letter, letter, f->call.form->in[i].n) != NULL;
    return !given;
}

/* An operand as infer()'s messages have it: "w[O..,I..]", "ids[t]:i32". */
static size_t sign(const fixture *f, const describe_doc_operand *o, char *to, size_t cap)
{
    size_t n = (size_t)snprintf(to, cap, "%s%s[", o->name, o->optional ? "?" : "");
    for (uint32_t k = 0; k < o->n; k++) {
        const bool group = o->group >> k & 1;
        if (is_made(f, o->letter[k]))
            continue;
        const char letter = o->letter[k] == '3' ? 'q' : (char)(o->letter[k] | (group ? 0 : 32));
        n += (size_t)snprintf(to + n, cap - n, "%s%c%s", k ? "," : "", letter, group ? ".." : "");
    }
    return n + (size_t)snprintf(to + n, cap - n, "]%s",
                                o->type == 'i'   ? ":i32"
                                : o->type == 'l' ? ":i64"
                                : o->type == 'f' ? ":f32"
                                                 : "");
}

/* Ops of any element type, which no wrong type leads to a message, and ops along a named axis,
 * whose sentences name the axis and have no signature. */
static bool has_no_signature(const fixture *f)
{
    for (uint32_t i = 0; i < f->doc.nattrs; i++)
        if (!strcmp(f->doc.attr[i].key, "*along"))
            return true;
    for (uint32_t i = 0; i < f->call.form->nin; i++)
        if (f->call.form->in[i].type != 'x')
            return false;
    return true;
}

static void names_are_those_of_messages_in(fixture *f)
{
    const describe_doc_form *form = f->call.form;
    char want[512] = "";
    size_t n = 0;
    weft_shape none[WEFT_MAX_OPERANDS];
    if ((f->doc.op->flags & WEFT_OP_ELEMENTWISE) || has_no_signature(f))
        return;
    for (uint32_t i = 0; i < f->call.nin; i++) { /* of a wrong type: refused, with the signature */
        none[i] = f->in[i];
        none[i].dtype = WEFT_U8;
    }
    err_clear();
    assert_int_not_equal(infer(f, none), WEFT_OK);
    for (uint32_t i = 0; i < form->nin + form->nout; i++) {
        const describe_doc_operand *o = i < form->nin ? &form->in[i] : &form->out[i - form->nin];
        n += (size_t)snprintf(want + n, sizeof want - n, "%s",
                              i == form->nin ? " -> "
                              : i            ? " "
                                             : "");
        n += sign(f, o, want + n, sizeof want - n);
    }
    const char *at = strstr(err_text(), want);
    if (!at || at[n + 1] != ' ') /* behind ':' or ',' what is wrong follows, or another form */
        fail_msg("op %s: '%s' is not in: %s", f->doc.id, want, err_text());
}

TEST(names_are_those_of_messages)
{
    for_all(names_are_those_of_messages_in);
}

/* --- formulas --- */

/* The size of a letter in the example: of a group the product. */
static double size_of(const fixture *f, char letter)
{
    for (uint32_t i = 0; i < f->call.nin + f->call.form->nout; i++) {
        const bool output = i >= f->call.nin;
        const describe_doc_operand *o =
            output ? &f->call.form->out[i - f->call.nin] : &f->call.form->in[i];
        const weft_shape *s = output ? &f->out[i - f->call.nin] : &f->in[i];
        uint32_t axis = 0;
        for (uint32_t k = 0; k < o->n; k++) {
            double size = 1;
            for (uint32_t j = 0; j < (o->group >> k & 1 ? f->call.group : 1); j++)
                size *= (double)s->axes[axis++].size;
            if (o->letter[k] == letter)
                return size;
        }
    }
    fail_msg("op %s: its formula has the letter %c, which no operand has", f->doc.id, letter);
    return 0;
}

static double attr_of(const fixture *f, const char *key)
{
    for (uint32_t i = 0; i < f->nattr; i++)
        if (!strcmp(f->attrs[i].key, key))
            return f->doc.attr[i].real ? f->attrs[i].f : (double)f->attrs[i].i;
    fail_msg("op %s: its formula has '%s', which is no attribute", f->doc.id, key);
    return 0;
}

static double evaluate(const fixture *f)
{
    char text[GRAPH_DOC_TEXT], *next = NULL;
    snprintf(text, sizeof text, "%s", f->doc.text.formula);
    char *condition = strstr(text, "; half if ");
    double value = 1;
    if (condition) {
        *condition = 0;
        value = attr_of(f, condition + strlen("; half if ")) != 0 ? 0.5 : 1;
    }
    for (char *w = strtok_r(text, " ", &next); w; w = strtok_r(NULL, " ", &next))
        value *= *w >= '0' && *w <= '9' ? strtod(w, NULL) : !w[1] ? size_of(f, *w) : attr_of(f, w);
    return value;
}

static void formula_is_counted(fixture *f)
{
    static const weft_op_self nobody = {.struct_size = sizeof nobody};
    const weft_op *op = f->doc.op;
    if (!op->flops != !f->doc.text.formula)
        fail_msg("op %s: it has %s, and its doc %s formula", f->doc.id,
                 op->flops ? "FLOPs" : "no FLOPs", f->doc.text.formula ? "a" : "no");
    for (int64_t causal = 0; op->flops && causal < 3; causal++) { /* 2: absent */
        const bool absent = causal == 2 && f->nattr > 1;
        describe_doc_attrs(&f->call, f->attrs);
        for (uint32_t i = 0; i < f->nattr; i++)
            if (!strcmp(f->attrs[i].key, "sequence"))
                f->attrs[i].i = 3;
            else if (causal < 2)
                f->attrs[i].i = causal;
        const double want = evaluate(f),
                     have = op->flops(&nobody, f->attrs, f->nattr - absent, f->in, f->call.nin,
                                      f->out, f->call.form->nout);
        if (have != want || want < 1000)
            fail_msg("op %s: %s is %g, and flops() counts %g", f->doc.id, f->doc.text.formula, want,
                     have);
    }
    describe_doc_attrs(&f->call, f->attrs);
}

TEST(formulas_are_counted)
{
    for_all(formula_is_counted);
}
