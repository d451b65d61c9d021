/* describe/example.c: an example of an op from its doc, and what shard() and grad() answer
 * for it. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "describe/describe.h"

/* --- Shapes and attributes --- */

/* Axes have descending powers of two, in the order in which the letters appear: all are even, and
 * heads (H) are a multiple of kv_heads (G), which come later. */
#define LARGEST 4096

typedef struct sizes {
    uint32_t n;
    char letter[26];
} sizes;

static int64_t size_of(sizes *s, char letter)
{
    uint32_t i = 0;
    if (letter == '3')
        return 3;
    while (i < s->n && s->letter[i] != letter)
        i++;
    if (i == s->n && s->n < sizeof s->letter)
        s->letter[s->n++] = letter;
    return i < 11 ? LARGEST >> i : 2;
}

static weft_status shape_of(const describe_doc_call *c, const describe_doc_operand *o, sizes *s,
                            weft_shape *out)
{
    *out = (weft_shape){.dtype = o->type == 'i' ? WEFT_I32 : o->type == 'l' ? WEFT_I64 : WEFT_F32};
    for (uint32_t k = 0; k < o->n; k++)
        for (uint32_t j = 0; j < (o->group >> k & 1 ? c->group : 1); j++) {
            if (out->rank == WEFT_MAX_AXES)
                return err_fail(WEFT_USAGE,
                                "op %s: %s would have more than %d axes in an example with groups "
                                "of %u axes",
                                c->doc->id, o->name, WEFT_MAX_AXES, c->group);
            const char *name =
                j ? c->doc->axis[o->letter[k] - 'A'][j] : describe_doc_axis(c->doc, o, k);
            out->axes[out->rank++] =
                (weft_axis){.name = name, .size = j ? 2 : size_of(s, o->letter[k])};
        }
    return WEFT_OK;
}

weft_status describe_doc_shapes(const describe_doc_call *c, weft_shape *in, weft_shape *out)
{
    sizes s = {0};
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < c->nin; i++)
        st = shape_of(c, &c->form->in[i], &s, &in[i]);
    for (uint32_t i = 0; st == WEFT_OK && i < c->form->nout; i++)
        st = shape_of(c, &c->form->out[i], &s, &out[i]);
    return st;
}

/* The axis `name` of the first operand that has it, inputs first: its number and size. False: none
 * has. */
static bool find_axis(const describe_doc_call *c, const char *name, int64_t *number, int64_t *size)
{
    weft_shape in[WEFT_MAX_OPERANDS] = {0}, out[WEFT_MAX_OPERANDS] = {0};
    if (describe_doc_shapes(c, in, out) != WEFT_OK)
        return false;
    for (uint32_t i = 0; i < c->nin + c->form->nout; i++) {
        const weft_shape *s = i < c->nin ? &in[i] : &out[i - c->nin];
        for (uint32_t k = 0; k < s->rank; k++)
            if (!strcmp(s->axes[k].name, name)) {
                *number = k;
                *size = s->axes[k].size;
                return true;
            }
    }
    return false;
}

/* What a whole-number attribute is in an example. */
static int64_t value_of(const describe_doc_call *c, const describe_doc_attr *a)
{
    int64_t number, size;
    if (*a->key == '*')
        return find_axis(c, a->key + 1, &number, &size) ? number : 0;
    if (a->size_of && find_axis(c, c->doc->axis[a->size_of - 'A'][0], &number, &size))
        return size;
    return (int64_t)a->dflt;
}

uint32_t describe_doc_attrs(const describe_doc_call *c, weft_attr *out)
{
    for (uint32_t i = 0; i < c->doc->nattrs; i++) {
        const describe_doc_attr *a = &c->doc->attr[i];
        out[i] = (weft_attr){
            .key = *a->key == '*' ? a->key + 1 : a->key, .i = value_of(c, a), .f = a->dflt};
    }
    return c->doc->nattrs;
}

/* --- The example in a graph of its own --- */

typedef struct example {
    graph_mesh mesh;
    graph g; /* the op is its first node */
    weft_attr attrs[GRAPH_DOC_ATTRS];
    weft_shape shape[WEFT_MAX_OPERANDS];
    weft_tensor in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
} example;

/* Inputs of kind `kind`; ids are inputs of the model. */
static weft_status build(const describe_doc_call *c, uint32_t kind, example *e)
{
    weft_shape expected[WEFT_MAX_OPERANDS];
    memset(e, 0, sizeof *e);
    e->mesh = (graph_mesh){.n = 1, .name = {"mesh"}, .size = {2}};
    graph_init(&e->g, &e->mesh, c->ops, WEFT_F32, WEFT_F32);
    weft_status st = describe_doc_shapes(c, e->shape, expected);
    for (uint32_t i = 0; st == WEFT_OK && i < c->nin; i++) {
        const bool id = e->shape[i].dtype != WEFT_F32;
        e->in[i] = graph_add(&e->g, c->form->in[i].name, id ? WEFT_T_INPUT : kind, &e->shape[i]);
    }
    const uint32_t nattr = describe_doc_attrs(c, e->attrs);
    weft_builder b = graph_builder(&e->g);
    if (st == WEFT_OK)
        st = b.op(b.ctx, c->doc->id, e->attrs, nattr, e->in, c->nin, 0, e->out, c->form->nout);
    if (st != WEFT_OK)
        graph_free(&e->g);
    return st;
}

/* --- Placements --- */

static bool ask(const describe_doc_call *c, example *e, const weft_place *in, weft_place *out)
{
    memset(out, 0, WEFT_MAX_OPERANDS * sizeof *out);
    for (uint32_t i = 0; i < c->nin; i++)
        graph_tensor_at(&e->g, e->in[i])->place[0] = in[i];
    weft_status st = graph_shard_node(&e->g, 0, 0, out);
    if (st != WEFT_OK)
        err_clear();
    return st == WEFT_OK;
}

/* Split every input that has one of the letters along it; false: an input has two of them. */
static bool place_letters(const describe_doc_call *c, const char *letters, weft_place *in)
{
    for (uint32_t i = 0; i < c->nin; i++) {
        const describe_doc_operand *o = &c->form->in[i];
        uint32_t axis = 0, found = 0;
        in[i] = (weft_place){.kind = WEFT_WHOLE};
        for (uint32_t k = 0; k < o->n; k++) {
            if (strchr(letters, o->letter[k]) && !found++)
                in[i] = (weft_place){.kind = WEFT_SPLIT, .axis = axis};
            axis += o->group >> k & 1 ? c->group : 1;
        }
        if (found > 1)
            return false;
    }
    return true;
}

/* The letters of the inputs, each once. */
static uint32_t letters_of(const describe_doc_call *c, char out[27])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->nin; i++)
        for (uint32_t k = 0; k < c->form->in[i].n; k++) {
            const char letter = c->form->in[i].letter[k];
            if (letter != '3' && !memchr(out, letter, n))
                out[n++] = letter;
        }
    out[n] = 0;
    return n;
}

static void ask_splits(const describe_doc_call *c, example *e, describe_doc_row *rows, uint32_t *n)
{
    char letter[27];
    const uint32_t letters = letters_of(c, letter);
    weft_place in[WEFT_MAX_OPERANDS];
    for (uint32_t i = 0; i < letters && *n < GRAPH_DOC_ROWS; i++) {
        describe_doc_row *r = &rows[(*n)++];
        *r = (describe_doc_row){.split = {letter[i]}};
        place_letters(c, r->split, in);
        r->accepted = ask(c, e, in, r->out);
    }
    for (uint32_t i = 0; i < letters; i++)
        for (uint32_t j = i + 1; j < letters && *n < GRAPH_DOC_ROWS; j++) {
            describe_doc_row r = {.split = {letter[i], letter[j]}};
            if (rows[i].accepted || rows[j].accepted || !place_letters(c, r.split, in))
                continue;
            r.accepted = ask(c, e, in, r.out);
            if (r.accepted)
                rows[(*n)++] = r;
        }
}

/* Sets of partial sums, the smaller ones first. */
static void ask_partials(const describe_doc_call *c, example *e, describe_doc_row *rows,
                         uint32_t *n)
{
    const uint32_t tried = c->nin < 12 ? c->nin : 12;
    for (int size = 1; size <= 3; size++)
        for (uint32_t set = 1; set < 1u << tried && *n < GRAPH_DOC_ROWS; set++) {
            weft_place in[WEFT_MAX_OPERANDS] = {0};
            bool ids = false;
            for (uint32_t i = 0; i < c->nin; i++) {
                in[i].kind = set >> i & 1 ? WEFT_PARTIAL_SUM : WEFT_WHOLE;
                ids |= set >> i & 1 && e->shape[i].dtype != WEFT_F32;
            }
            describe_doc_row r = {.partial = set};
            if (__builtin_popcount(set) != size || ids)
                continue;
            r.accepted = ask(c, e, in, r.out);
            if (r.accepted)
                rows[(*n)++] = r;
        }
}

weft_status describe_doc_placements(const describe_doc_call *c,
                                    describe_doc_row rows[GRAPH_DOC_ROWS], uint32_t *n)
{
    example e;
    weft_status st = build(c, WEFT_T_ACTIVATION, &e);
    *n = 0;
    if (st != WEFT_OK)
        return st;
    ask_splits(c, &e, rows, n);
    ask_partials(c, &e, rows, n);
    graph_free(&e.g);
    return WEFT_OK;
}

/* --- Gradients --- */

/* Append an id to a list that does not have it. */
static void note(char list[GRAPH_DOC_TEXT], const char *id)
{
    const size_t used = strlen(list), n = strlen(id);
    for (const char *p = strstr(list, id); p; p = strstr(p + 1, id))
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return;
    if (used + n + 2 < GRAPH_DOC_TEXT)
        snprintf(list + used, GRAPH_DOC_TEXT - used, "%s%s", used ? " " : "", id);
}

/* The gradients that grad() makes in one part, as bits, where one flows into each of the outputs
 * `from`. False: it refuses. */
static bool derive(const describe_doc_call *c, uint32_t from, uint32_t part, uint32_t *made,
                   describe_doc_gradient *out)
{
    example e;
    const uint32_t kind = part == WEFT_GRAD_PARAMS ? WEFT_T_PARAM : WEFT_T_ACTIVATION;
    weft_tensor dout[WEFT_MAX_OPERANDS] = {0}, din[WEFT_MAX_OPERANDS] = {0};
    weft_status st = build(c, kind, &e);
    if (st != WEFT_OK)
        return false;
    for (uint32_t k = 0; k < c->form->nout; k++) {
        const weft_shape shape = graph_tensor_at(&e.g, e.out[k])->shape;
        if (from >> k & 1)
            dout[k] = graph_add(&e.g, "flows.in", WEFT_T_ACTIVATION, &shape);
    }
    const graph_node n = e.g.nodes.at[0]; /* a copy: the array grows below */
    const weft_opcall call = {.struct_size = sizeof call,
                              .nattr = n.nattr,
                              .attrs = n.attrs,
                              .nin = n.nin,
                              .nout = n.nout,
                              .in = n.in,
                              .out = n.out,
                              .dout = dout};
    if (part == WEFT_GRAD_PARAMS) /* B is asked first, as in a plan */
        st = graph_derive_part(&e.g, &n, &call, WEFT_GRAD_INPUTS, din);
    if (st == WEFT_OK)
        st = graph_derive_part(&e.g, &n, &call, part, din);
    *made = 0;
    for (uint32_t i = 0; st == WEFT_OK && i < c->nin; i++)
        if (din[i] && graph_tensor_at(&e.g, e.in[i])->kind == kind)
            *made |= 1u << i;
    for (uint32_t i = 1; st == WEFT_OK && *made && i < e.g.nodes.n; i++)
        note(out->ops, e.g.nodes.at[i].id);
    if (st != WEFT_OK)
        err_clear();
    graph_free(&e.g);
    return st == WEFT_OK;
}

weft_status describe_doc_gradients(const describe_doc_call *c, describe_doc_gradient *out)
{
    example e;
    *out = (describe_doc_gradient){0};
    weft_status st = build(c, WEFT_T_ACTIVATION, &e);
    if (st != WEFT_OK)
        return st;
    graph_free(&e.g);
    /* each output alone, then those left together with the others */
    for (uint32_t pass = 0; c->doc->op->grad && pass < 2; pass++)
        for (uint32_t k = 0; k < c->form->nout; k++) {
            const uint32_t from = 1u << k | (pass ? out->from : 0);
            uint32_t inputs, params;
            if (out->from >> k & 1 || (pass && !out->from) ||
                !derive(c, from, WEFT_GRAD_INPUTS, &inputs, out) ||
                !derive(c, from, WEFT_GRAD_PARAMS, &params, out) || !(inputs | params))
                continue;
            out->from |= from;
            out->inputs |= inputs;
            out->params |= params;
        }
    return WEFT_OK;
}
