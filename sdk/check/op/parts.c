/* check/op/parts.c: an op computed in two parts, and in place, gives what it gives as a whole.
 *
 * For each placement that the op accepts, the inputs are cut in two: a split input into halves, a
 * partial sum into two terms. Its kernel computes both, and the results are put together as the
 * placements of the outputs say. */
#include "check/op/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 2u

/* Copy between a whole tensor and one of its halves along an axis. */
static void half(const weft_shape *s, uint32_t axis, uint32_t part, void *whole, void *piece,
                 bool join)
{
    const uint64_t size = weft_dtype_size(s->dtype);
    uint64_t run = size, times = 1;
    for (uint32_t k = 0; k < s->rank; k++)
        if (k < axis)
            times *= (uint64_t)s->axes[k].size;
        else
            run *= (uint64_t)s->axes[k].size;
    for (uint64_t i = 0; i < times; i++) {
        char *a = (char *)whole + i * run + part * run / PARTS;
        char *b = (char *)piece + i * (run / PARTS);
        memcpy(join ? a : b, join ? b : a, run / PARTS);
    }
}

/* Part `part` of an input; the terms of a partial sum are a quarter and the rest. */
static void *piece_of(const weft_shape *s, weft_place p, uint32_t part, void *whole)
{
    const weft_shape local = check_op_part(s, p);
    char *piece = mem_alloc(graph_shape_bytes(&local) + 1);
    if (p.kind == WEFT_SPLIT) {
        half(s, p.axis, part, whole, piece, false);
        return piece;
    }
    memcpy(piece, whole, graph_shape_bytes(s));
    for (uint64_t i = 0; p.kind == WEFT_PARTIAL_SUM && i < graph_shape_elements(s); i++)
        ((float *)(void *)piece)[i] *= part ? 0.75f : 0.25f;
    return piece;
}

typedef struct cut { /* an example in parts */
    const check_op_example *e;
    const describe_doc_row *row;
    weft_place in[WEFT_MAX_OPERANDS];
    void *from[WEFT_MAX_OPERANDS], *whole[WEFT_MAX_OPERANDS];
    void *joined[WEFT_MAX_OPERANDS]; /* the parts together */
} cut;

/* What a part has computed, into the joined results. */
static void join(cut *c, uint32_t k, uint32_t part, void *got)
{
    const weft_shape *s = &c->e->out[k];
    const weft_place p = c->row->out[k];
    float *to = c->joined[k], *x = got;
    if (p.kind == WEFT_SPLIT)
        half(s, p.axis, part, to, got, true);
    else if (!part || p.kind == WEFT_WHOLE)
        memcpy(to, got, graph_shape_bytes(s));
    else
        for (uint64_t i = 0; check_op_real(s) && i < graph_shape_elements(s); i++)
            to[i] = p.kind == WEFT_PARTIAL_MAX ? fmaxf(to[i], x[i]) : to[i] + x[i];
}

static void compare(const cut *c, uint32_t k, const char *how)
{
    const check_op_example *e = c->e;
    const weft_shape *s = &e->out[k];
    const uint64_t i = check_op_unlike(s, c->whole[k], c->joined[k]);
    if (i < graph_shape_elements(s))
        check_fail("'%s' computed %s gives %.6g for element %llu of %s, and computed as a whole it "
                   "gives %.6g (%s)",
                   e->of->c->name, how, (double)((float *)c->joined[k])[i], (unsigned long long)i,
                   e->call.form->out[k].name, (double)((float *)c->whole[k])[i], e->text);
}

/* Compute one part; false: the kernel refuses these sizes. */
static bool one_part(cut *c, uint32_t part, void **to)
{
    const check_op_example *e = c->e;
    weft_shape in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    void *from[WEFT_MAX_OPERANDS];
    weft_attr attrs[CHECK_OP_ATTRS];
    char why[1024];
    for (uint32_t i = 0; i < e->nin; i++) {
        in[i] = check_op_part(&e->in[i], c->in[i]);
        from[i] = piece_of(&e->in[i], c->in[i], part, c->from[i]);
    }
    for (uint32_t i = 0; i < e->nout; i++) {
        out[i] = check_op_part(&e->out[i], c->row->out[i]);
        to[i] = mem_alloc(graph_shape_bytes(&out[i]) + 1);
    }
    const check_op_task t = {.id = e->of->c->name,
                             .op = e->of->table,
                             .attrs = attrs,
                             .nattr = check_op_position(e->of->table, e->attrs, e->nattr, e->in,
                                                        e->nin, c->in, part, attrs),
                             .nin = e->nin,
                             .nout = e->nout,
                             .in = in,
                             .out = out,
                             .from = (const void *const *)from,
                             .to = to};
    const bool done = check_op_compute(e->of, &t, why);
    check_op_free(from, e->nin);
    return done;
}

static void row_text(const cut *c, char text[160])
{
    size_t n = (size_t)snprintf(text, 160, "in two parts,");
    if (*c->row->split)
        snprintf(text + n, 160 - n, " split along %s",
                 c->e->of->doc->axis[*c->row->split - 'A'][0]);
    for (uint32_t i = 0; i < c->e->nin && n < 100; i++)
        if (c->row->partial >> i & 1)
            n += (size_t)snprintf(text + n, 160 - n, " %s a partial sum",
                                  c->e->call.form->in[i].name);
}

static void each_row(cut *c)
{
    const check_op_example *e = c->e;
    void *to[WEFT_MAX_OPERANDS] = {NULL};
    char text[160];
    bool done = true;
    for (uint32_t k = 0; k < e->nout; k++)
        c->joined[k] = mem_alloc(graph_shape_bytes(&e->out[k]) + 1);
    row_text(c, text);
    for (uint32_t part = 0; done && part < PARTS; part++) {
        done = one_part(c, part, to);
        for (uint32_t k = 0; done && k < e->nout; k++) {
            join(c, k, part, to[k]);
            if (c->row->out[k].kind == WEFT_WHOLE)
                compare(c, k, text);
        }
        check_op_free(to, e->nout);
    }
    for (uint32_t k = 0; done && k < e->nout; k++)
        if (c->row->out[k].kind != WEFT_HELD)
            compare(c, k, text);
    check_op_free(c->joined, e->nout);
}

/* Whether the kernel is told where its part begins. */
static bool told(const cut *c)
{
    const weft_op *op = c->e->of->table;
    const uint32_t k = op->first_input;
    return k && k <= c->e->nin && c->in[k - 1].kind == WEFT_SPLIT &&
           (op->flags & WEFT_OP_NUMBERED || c->in[k - 1].axis == op->first_axis);
}

static void rows(const check_op_example *e, bool of_first)
{
    static describe_doc_row all[GRAPH_DOC_ROWS];
    static cut c;
    uint32_t n = 0;
    uint64_t random = e->of->run->seed;
    char why[1024];
    check_op_quiet(e->of);
    if (describe_doc_placements(&e->call, all, &n) != WEFT_OK)
        n = 0; /* check 169 says so */
    c = (cut){.e = e};
    if (!check_op_random(e, &random, true, c.from, c.whole, why)) {
        check_op_unknown(e, "'%s' cannot be computed: %s", e->of->c->name, why);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        c.row = &all[i];
        check_op_places(e, c.row, c.in);
        if (all[i].accepted && told(&c) == of_first)
            each_row(&c);
    }
    check_op_free(c.from, e->nin);
    check_op_free(c.whole, e->nout);
}

static void plain(const check_op_example *e)
{
    rows(e, false);
}

void check_op_parts(check_run *r)
{
    check_op_examples(r, true, NULL, "", plain);
}

/* --- in_place, first_input --- */

static void overwrite(const check_op_example *e)
{
    static cut c;
    const uint32_t k = e->of->table->in_place;
    uint64_t random = e->of->run->seed;
    char why[1024], text[160];
    c = (cut){.e = e};
    if (k > e->nin) /* a form without that input */
        return;
    if (graph_shape_bytes(&e->in[k - 1]) != graph_shape_bytes(&e->out[0]))
        check_fail("in_place of '%s' says that %s may overwrite %s, which has another size",
                   e->of->c->name, e->call.form->out[0].name, e->call.form->in[k - 1].name);
    if (!check_op_random(e, &random, true, c.from, c.whole, why)) {
        check_op_unknown(e, "'%s' cannot be computed: %s", e->of->c->name, why);
        return;
    }
    snprintf(text, sizeof text, "in place of %s, as in_place says,", e->call.form->in[k - 1].name);
    if (check_op_forward(e, (const void *const *)c.from, k, c.joined, why))
        for (uint32_t i = 0; i < e->nout; i++)
            compare(&c, i, text);
    check_op_free(c.from, e->nin);
    check_op_free(c.whole, e->nout);
    check_op_free(c.joined, e->nout);
}

static void placed(const check_op_example *e)
{
    if (e->of->table->in_place)
        overwrite(e);
    if (e->of->table->first_input)
        rows(e, true);
}

static bool is_placed(const weft_op *op)
{
    return op->in_place || op->first_input;
}

void check_op_in_place(check_run *r)
{
    check_op_examples(r, true, is_placed, "in_place or first_input", placed);
}
