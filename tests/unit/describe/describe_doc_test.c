/* Are the docs of the ops that come with weft true?
 *
 * Examples are built from the documented operands: infer() must accept them and give the documented
 * outputs, and must refuse what differs from them in rank, type, axes, number or attributes. Names
 * of operands are those of the op's own messages, formulas what flops() counts. */
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
    weft_shape in[WEFT_MAX_OPERANDS + 1], out[WEFT_MAX_OPERANDS];
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

/* The name of an axis in memory of the doc or of the program. */
static const char *lasting(const fixture *f, const char *name)
{
    static const char *const made[] = {"three", "sums", "renamed"};
    for (uint32_t i = 0; i < 26 * GRAPH_DOC_GROUP; i++)
        if (!strcmp(f->doc.axis[i / GRAPH_DOC_GROUP][i % GRAPH_DOC_GROUP], name))
            return f->doc.axis[i / GRAPH_DOC_GROUP][i % GRAPH_DOC_GROUP];
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (!strcmp(made[i], name))
            return made[i];
    return "unknown";
}

/* The shapes that the op makes of these inputs: by the builder, which asks its infer(). */
static weft_status infer(const fixture *f, const weft_shape *in, uint32_t nin,
                         const weft_attr *attrs, uint32_t nattr, weft_shape *out)
{
    graph g;
    const graph_mesh m = {0};
    weft_tensor x[WEFT_MAX_OPERANDS + 1], y[WEFT_MAX_OPERANDS];
    graph_init(&g, &m, builtin_ops(), WEFT_F32, WEFT_F32);
    for (uint32_t i = 0; i < nin; i++) {
        char name[16];
        snprintf(name, sizeof name, "in.%u", i);
        x[i] = graph_add(&g, name, WEFT_T_ACTIVATION, &in[i]);
    }
    weft_builder b = graph_builder(&g);
    weft_status st = b.op(b.ctx, f->doc.id, attrs, nattr, x, nin, 0, y, f->call.form->nout);
    for (uint32_t i = 0; st == WEFT_OK && i < f->call.form->nout; i++) {
        out[i] = graph_tensor_at(&g, y[i])->shape;
        for (uint32_t k = 0; k < out[i].rank; k++)
            out[i].axes[k].name = lasting(f, out[i].axes[k].name);
    }
    graph_free(&g);
    return st;
}

static void refused(const fixture *f, const weft_shape *in, uint32_t nin, const char *what,
                    uint32_t which)
{
    weft_shape out[WEFT_MAX_OPERANDS];
    if (infer(f, in, nin, f->attrs, f->nattr, out) == WEFT_OK)
        fail_msg("op %s accepts %s of input %u, which its doc does not allow: operands %s",
                 f->doc.id, what, which, f->doc.text.operands);
}

static bool is_elementwise(const fixture *f)
{
    return f->doc.op->flags & WEFT_OP_ELEMENTWISE && !f->doc.nattrs;
}

/* --- accepted --- */

static void same_shape(const fixture *f, uint32_t k, const weft_shape *have)
{
    const weft_shape *want = &f->out[k];
    const bool any = f->call.form->out[k].type == 'x';
    bool same = have->rank == want->rank && (any || have->dtype == want->dtype);
    for (uint32_t i = 0; same && i < want->rank; i++) {
        const char *name = have->axes[i].name;
        /* an axis of xent.sums' own, and those whose size no letter gives */
        const bool made =
            !strcmp(name, "sums") || !strcmp(name, "merged") || !strcmp(name, "outer");
        const bool renamed = !strcmp(f->doc.id, "rename") && !strcmp(name, "renamed");
        same = (have->axes[i].size == want->axes[i].size || made) &&
               (!strcmp(name, want->axes[i].name) || renamed);
    }
    if (!same)
        fail_msg("op %s: output %u, %s, is not what its doc says: results %s", f->doc.id, k,
                 f->call.form->out[k].name, f->doc.text.results);
}

/* In fp32, and with another compute type. */
static void is_accepted(fixture *f)
{
    for (uint32_t dtype = WEFT_F32; dtype <= WEFT_F16; dtype++) {
        weft_shape out[WEFT_MAX_OPERANDS];
        for (uint32_t i = 0; i < f->call.nin; i++)
            if (strchr("cx", f->call.form->in[i].type))
                f->in[i].dtype = dtype;
        for (uint32_t i = 0; i < f->call.form->nout; i++)
            if (strchr("cgx", f->call.form->out[i].type))
                f->out[i].dtype = dtype;
        if (infer(f, f->in, f->call.nin, f->attrs, f->nattr, out) != WEFT_OK)
            fail_msg("op %s refuses its own doc: %s", f->doc.id, err_text());
        for (uint32_t i = 0; i < f->call.form->nout; i++)
            same_shape(f, i, &out[i]);
    }
}

TEST(documented_operands_are_accepted)
{
    for_all(is_accepted);
}

/* Any operand of an elementwise op may be a scalar, of any float type. */
static void takes_scalars(fixture *f)
{
    weft_shape in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    for (uint32_t set = 1; is_elementwise(f) && set < 1u << f->call.nin; set++) {
        for (uint32_t i = 0; i < f->call.nin; i++)
            in[i] = set >> i & 1 ? (weft_shape){.dtype = WEFT_BF16} : f->in[i];
        assert_int_equal(infer(f, in, f->call.nin, f->attrs, f->nattr, out), WEFT_OK);
        assert_int_equal(out[0].rank, set + 1 == 1u << f->call.nin ? 0 : f->in[0].rank);
        assert_int_equal(out[0].dtype, set + 1 == 1u << f->call.nin ? WEFT_BF16 : WEFT_F32);
    }
}

TEST(elementwise_ops_take_scalars)
{
    for_all(takes_scalars);
}

/* --- refused --- */

static bool elsewhere(const fixture *f, uint32_t input, char letter)
{
    for (uint32_t i = 0; i < f->call.nin; i++)
        if (i != input && memchr(f->call.form->in[i].letter, letter, f->call.form->in[i].n))
            return true;
    return false;
}

/* Whether all groups of input j are in operand `o`. */
static bool no_other_group(const fixture *f, uint32_t j, const describe_doc_operand *o)
{
    const describe_doc_operand *other = &f->call.form->in[j];
    for (uint32_t k = 0; k < other->n; k++)
        if (other->group >> k & 1 && !memchr(o->letter, other->letter[k], o->n))
            return false;
    return true;
}

/* The rank of an input is fixed by itself, or by groups that another input has alone. */
static bool rank_is_fixed(const fixture *f, uint32_t input)
{
    const describe_doc_operand *o = &f->call.form->in[input];
    for (uint32_t k = 0; k < o->n; k++) {
        bool fixed = !(o->group >> k & 1);
        for (uint32_t j = 0; j < f->call.nin; j++) {
            const describe_doc_operand *other = &f->call.form->in[j];
            fixed |= j != input && memchr(other->letter, o->letter[k], other->n) &&
                     no_other_group(f, j, o);
        }
        if (!fixed)
            return false;
    }
    return o->n || !strstr(f->doc.text.operands, " | "); /* a form for any rank */
}

static void other_types(const fixture *f, uint32_t i, weft_shape *in)
{
    const describe_doc_operand *o = &f->call.form->in[i];
    static const uint32_t wrong[] = {WEFT_I64, WEFT_U8, WEFT_F32, WEFT_BF16, WEFT_I32};
    for (uint32_t k = 0; o->type != 'x' && k < sizeof wrong / sizeof *wrong; k++) {
        const bool is_float = wrong[k] == WEFT_F32 || wrong[k] == WEFT_BF16;
        bool others = false; /* another compute input, whose type is fp32 */
        for (uint32_t j = 0; j < f->call.nin; j++)
            others |= j != i && f->call.form->in[j].type == 'c';
        if (wrong[k] == f->in[i].dtype || (is_float && o->type == 'c' && !others) ||
            (is_float && is_elementwise(f)))
            continue;
        in[i].dtype = wrong[k];
        refused(f, in, f->call.nin, "another element type", i);
    }
    in[i] = f->in[i];
}

static void other_axes(const fixture *f, uint32_t i, weft_shape *in)
{
    const describe_doc_operand *o = &f->call.form->in[i];
    uint32_t axis = 0;
    for (uint32_t k = 0; k < o->n; axis += o->group >> k & 1 ? f->call.group : 1, k++) {
        if (o->letter[k] == '3') {
            in[i].axes[axis].size = 4;
            refused(f, in, f->call.nin, "an axis of four instead of three", i);
        } else if (elsewhere(f, i, o->letter[k])) {
            in[i].axes[axis].name = "another";
            refused(f, in, f->call.nin, "another axis name", i);
            in[i] = f->in[i];
            in[i].axes[axis].size *= 2;
            refused(f, in, f->call.nin, "another axis size", i);
        }
        in[i] = f->in[i];
    }
}

static bool documented_number(const fixture *f, uint32_t nin)
{
    for (uint32_t k = 0; k < f->doc.nforms; k++) {
        const describe_doc_form *form = &f->doc.form[k];
        if (nin <= form->nin && (nin == form->nin || form->in[nin].optional))
            return true;
    }
    return false;
}

static void differences_are_refused_in(fixture *f)
{
    weft_shape in[WEFT_MAX_OPERANDS + 1];
    memcpy(in, f->in, sizeof in);
    for (uint32_t i = 0; i < f->call.nin; i++) {
        other_types(f, i, in);
        other_axes(f, i, in);
        if (rank_is_fixed(f, i)) {
            in[i].axes[in[i].rank++] = (weft_axis){.name = "more", .size = 2};
            refused(f, in, f->call.nin, "one axis more", i);
            in[i] = f->in[i];
        }
        if (rank_is_fixed(f, i) && in[i].rank && (in[i].rank > 1 || !is_elementwise(f))) {
            in[i].rank--;
            refused(f, in, f->call.nin, "one axis less", i);
            in[i] = f->in[i];
        }
    }
    in[f->call.nin] = in[f->call.nin - 1];
    if (!documented_number(f, f->call.nin + 1))
        refused(f, in, f->call.nin + 1, "one input more", f->call.nin);
    if (!documented_number(f, f->call.nin - 1))
        refused(f, in, f->call.nin - 1, "the absence", f->call.nin - 1);
}

TEST(differences_are_refused)
{
    for_all(differences_are_refused_in);
}

/* What has no default must be given; what has one need not be. */
static void needs_attributes(fixture *f)
{
    for (uint32_t k = 0; k < f->doc.nattrs; k++) {
        weft_attr attrs[GRAPH_DOC_ATTRS];
        weft_shape out[WEFT_MAX_OPERANDS];
        uint32_t n = 0;
        for (uint32_t i = 0; i < f->nattr; i++)
            if (i != k)
                attrs[n++] = f->attrs[i];
        const bool accepted = infer(f, f->in, f->call.nin, attrs, n, out) == WEFT_OK;
        if (accepted == f->doc.attr[k].required)
            fail_msg("op %s without the attribute %s is %s, and its doc says otherwise", f->doc.id,
                     f->doc.attr[k].key, accepted ? "accepted" : "refused");
    }
}

TEST(attributes_are_required)
{
    for_all(needs_attributes);
}

/* --- names --- */

/* An operand as infer()'s messages have it: "w[O..,I..]", "ids[t]:i32". */
static void sign(const describe_doc_operand *o, bool types, char *to, size_t cap)
{
    size_t n = (size_t)snprintf(to, cap, "%s%s[", o->name, o->optional ? "?" : "");
    for (uint32_t k = 0; k < o->n; k++) {
        const bool group = o->group >> k & 1;
        const char letter = o->letter[k] == '3' ? 'q' : (char)(o->letter[k] | (group ? 0 : 32));
        n += (size_t)snprintf(to + n, cap - n, "%s%c%s", k ? "," : "", letter, group ? ".." : "");
    }
    snprintf(to + n, cap - n, "]%s",
             !types           ? ""
             : o->type == 'i' ? ":i32"
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
    char want[512] = "", one[64];
    weft_shape none[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    if ((f->doc.op->flags & WEFT_OP_ELEMENTWISE) || has_no_signature(f))
        return;
    for (uint32_t i = 0; i < f->call.nin; i++) { /* of a wrong type: refused, with the signature */
        none[i] = f->in[i];
        none[i].dtype = WEFT_U8;
    }
    err_clear();
    assert_int_not_equal(infer(f, none, f->call.nin, f->attrs, f->nattr, out), WEFT_OK);
    want[0] = 0;
    for (uint32_t i = 0; i < f->call.form->nin; i++) {
        const size_t n = strlen(want);
        sign(&f->call.form->in[i], true, one, sizeof one);
        snprintf(want + n, sizeof want - n, "%s%s", i ? " " : "", one);
    }
    memcpy(want + strlen(want), " -> ", 5);
    const char *at = strstr(err_text(), want);
    if (!at)
        fail_msg("op %s: '%s' is not in: %s", f->doc.id, want, err_text());
    at += strlen(want);
    for (uint32_t i = 0; i < f->call.form->nout; i++) {
        const size_t n = strlen(f->call.form->out[i].name);
        if (strncmp(at, f->call.form->out[i].name, n) || at[n] != '[')
            fail_msg("op %s: output %u is '%s' in its doc and not in: %s", f->doc.id, i,
                     f->call.form->out[i].name, err_text());
        at += strcspn(at, " :") + (at[strcspn(at, " :")] == ':' ? strlen(":f32") : 0);
        at += *at == ' ';
    }
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
