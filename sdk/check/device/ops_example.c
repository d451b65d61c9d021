/* check/device/ops_example.c: examples of ops from their docs (weft/op.h), with values. See ops.h.
 *
 * Sizes are powers of two that shrink from letter to letter, in the order in which the letters
 * appear, as in examples of `weft ops`: 32, 16, 8, 4, 2. All groups have one axis. Ids are 0 or 1,
 * and other inputs lie between 1/4 and 1. check_example_how_of() has other sizes and values. */
#include "base/err.h"
#include "check/device/ops.h"
#include "describe/describe.h"

#include <stdio.h>
#include <string.h>

static const check_example_how usual = {{32, 16, 8, 4, 2}, 2, 0.25, 1, {0}};

typedef struct letters {
    const check_example_how *how;
    char letter[26];
    int64_t size[26];
    uint32_t n;
} letters;

static int64_t *find(letters *s, char letter)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->letter[i] == letter)
            return &s->size[i];
    return NULL;
}

static int64_t size_of(letters *s, char letter)
{
    int64_t *known = letter == '3' ? NULL : find(s, letter);
    if (known || letter == '3')
        return known ? *known : 3;
    const int64_t size = s->n < CHECK_EXAMPLE_SIZES ? s->how->size[s->n] : s->how->rest;
    s->letter[s->n] = letter;
    s->size[s->n++] = size;
    return size;
}

static uint32_t type_of(char letter, uint32_t dtype)
{
    return letter == 'i' ? WEFT_I32 : letter == 'l' ? WEFT_I64 : letter == 'c' ? dtype : WEFT_F32;
}

static void add_input(check_call *c, const describe_doc_operand *o, letters *s, uint32_t dtype)
{
    int64_t size[WEFT_MAX_AXES];
    for (uint32_t k = 0; k < o->n; k++)
        size[k] = size_of(s, o->letter[k]);
    const uint32_t type = type_of(o->type, dtype);
    const bool id = type == WEFT_I32 || type == WEFT_I64;
    double *x = check_call_in(c, type, o->n, size, id ? 0 : s->how->lo, id ? 2 : s->how->hi);
    for (int64_t i = 0, n = check_operand_count(&c->in[c->nin - 1]); id && i < n; i++)
        x[i] = (double)(i % 3 == 1);
}

static void add_output(check_call *c, const describe_doc_operand *o, letters *s, uint32_t dtype)
{
    weft_operand *to = &c->out[c->nout++];
    *to = (weft_operand){.dtype = type_of(o->type, dtype), .rank = o->n};
    for (uint32_t k = 0; k < o->n; k++)
        to->size[k] = size_of(s, o->letter[k]);
}

static void add_number(check_call *c, const char *key, int64_t value)
{
    if (c->nattr < CHECK_CALL_ATTRS)
        c->attrs[c->nattr++] = (weft_attr){.key = key, .i = value, .f = (double)value};
}

/* The attributes of the doc, and those that the core gives. */
static void add_attrs(check_call *c, const describe_doc_call *of, letters *s, uint32_t before)
{
    static const char *const whole[] = {"whole.0", "whole.1", "whole.2", "whole.3",
                                        "whole.4", "whole.5", "whole.6", "whole.7"};
    const weft_op *op = of->doc->op;
    const uint32_t first = c->nattr;
    weft_attr own[GRAPH_DOC_ATTRS];
    const uint32_t n = describe_doc_attrs(of, own);
    for (uint32_t i = 0; i < n && c->nattr < CHECK_CALL_ATTRS; i++) {
        const describe_doc_attr *a = &of->doc->attr[i];
        c->attrs[c->nattr++] = own[i];
        if (a->size_of)
            c->attrs[first + i].i = size_of(s, a->size_of);
    }
    if (op->first_input)
        add_number(c, "first", 0);
    if (!(op->flags & WEFT_OP_NUMBERED) || !op->first_input)
        return;
    const weft_operand *o = &c->in[before + op->first_input - 1];
    add_number(c, "seed", 7);
    for (uint32_t k = 0; k < o->rank; k++)
        add_number(c, whole[k], o->size[k]);
}

static bool read_doc(const char *id, const weft_op *op, describe_doc *doc)
{
    return op && op->doc && describe_doc_read(id, op, doc) == WEFT_OK;
}

/* Whether infer() takes the call. */
static bool is_lawful(const check_example_how *how, const describe_doc_call *of,
                      const check_call *c)
{
    graph_mesh alone = {0};
    graph g;
    weft_tensor in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    graph_init(&g, &alone, how->ops, c->nin ? c->in[0].dtype : WEFT_F32, WEFT_F32);
    for (uint32_t i = 0; i < c->nin; i++) {
        weft_shape s = {.dtype = c->in[i].dtype, .rank = c->in[i].rank};
        for (uint32_t k = 0; k < s.rank; k++)
            s.axes[k] =
                (weft_axis){describe_doc_axis(of->doc, &of->form->in[i], k), c->in[i].size[k]};
        in[i] = graph_add(&g, of->form->in[i].name, WEFT_T_INPUT, &s);
    }
    const uint32_t nattr = of->doc->nattrs < c->nattr ? of->doc->nattrs : c->nattr; /* the op's */
    const weft_builder b = graph_builder(&g);
    const bool taken = b.op(b.ctx, c->id, c->attrs, nattr, in, c->nin, 0, out, c->nout) == WEFT_OK;
    graph_free(&g);
    err_clear();
    return taken;
}

bool check_example(const char *id, const weft_op *op, uint32_t number, uint32_t dtype,
                   check_call *out)
{
    return check_example_how_of(&usual, id, op, number, dtype, NULL, out);
}

bool check_example_how_of(const check_example_how *how, const char *id, const weft_op *op,
                          uint32_t number, uint32_t dtype, bool *lawful, check_call *out)
{
    static describe_doc doc; /* attributes refer to it */
    describe_doc_call calls[GRAPH_DOC_CALLS];
    letters s = {.how = how};
    check_call_begin(out, id);
    if (!read_doc(id, op, &doc) || number >= describe_doc_calls(&doc, calls))
        return false;
    const describe_doc_call *of = &calls[number];
    for (uint32_t k = 0; k < of->nin; k++)
        add_input(out, &of->form->in[k], &s, dtype);
    for (uint32_t k = 0; k < of->form->nout; k++)
        add_output(out, &of->form->out[k], &s, dtype);
    add_attrs(out, of, &s, 0);
    if (lawful)
        *lawful = is_lawful(how, of, out);
    out->shape_last = op->flags & WEFT_OP_SHAPE_LAST;
    out->over[0] = op->in_place;
    (void)check_call_what(out);
    return true;
}

/* --- chains --- */

/* Give the letters of `o` the sizes of an operand; false: they do not fit. */
static bool bind(letters *s, const describe_doc_operand *o, const weft_operand *to)
{
    if (o->n != to->rank || (o->type != 'c' && o->type != 'x'))
        return false;
    for (uint32_t k = 0; k < o->n; k++) {
        const char letter = o->letter[k];
        const int64_t *known = find(s, letter);
        if (letter == '3' ? to->size[k] != 3 : known && *known != to->size[k])
            return false;
        if (letter != '3' && !known) {
            s->letter[s->n] = letter;
            s->size[s->n++] = to->size[k];
        }
    }
    return true;
}

bool check_example_chain(const host_component *const *ops, uint32_t join, const char *name,
                         uint32_t number, uint32_t dtype, bool *fits, check_call *out)
{
    static describe_doc doc;
    describe_doc_call calls[GRAPH_DOC_CALLS];
    letters s = {.how = &usual};
    if (!read_doc(ops[1]->name, ops[1]->table, &doc))
        return false;
    const uint32_t n = describe_doc_calls(&doc, calls);
    const describe_doc_call *of = &calls[number % n];
    if (!check_example(ops[0]->name, ops[0]->table, number / n, dtype, out))
        return false;
    const weft_operand *joined = join == WEFT_FUSE_CHAINED ? &out->out[0] : &out->in[0];
    *fits = of->nin && out->nout && out->nin && joined->dtype == dtype &&
            bind(&s, &of->form->in[0], joined);
    if (!*fits)
        return true;
    const uint32_t before = out->nin - 1;
    for (uint32_t k = 1; k < of->nin && out->nin < WEFT_MAX_OPERANDS; k++)
        add_input(out, &of->form->in[k], &s, dtype);
    for (uint32_t k = 0; k < of->form->nout && out->nout < WEFT_MAX_OPERANDS; k++)
        add_output(out, &of->form->out[k], &s, dtype);
    add_attrs(out, of, &s, before);
    out->id = name;
    out->over[0] = 0;
    (void)check_call_what(out);
    return true;
}
