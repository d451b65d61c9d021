/* check/op/infer.c: shapes of the results, whole and local, within the room for them. */
#include "check/op/op.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

/* Whether an input of the example has the axis letter: then the doc gives its size. */
static bool has_letter(const check_op_example *e, char letter)
{
    for (uint32_t i = 0; i < e->nin; i++)
        if (memchr(e->call.form->in[i].letter, letter, e->call.form->in[i].n))
            return true;
    return false;
}

static void show(const weft_shape *s, char text[160])
{
    size_t n = 0;
    text[0] = 0;
    for (uint32_t k = 0; k < s->rank && k < WEFT_MAX_AXES && n < 130; k++)
        n += (size_t)snprintf(text + n, 160 - n, "%s%lld", k ? ", " : "",
                              (long long)s->axes[k].size);
}

/* A result against the shape that the doc says, or a part of it. */
static void compare(const check_op_example *e, const char *sizes, uint32_t i, const weft_shape *got,
                    const weft_shape *said)
{
    const describe_doc_operand *o = &e->call.form->out[i];
    char a[160], b[160];
    bool like = got->rank == said->rank || (o->group && got->rank <= WEFT_MAX_AXES);
    for (uint32_t k = 0; like && k < o->n && got->rank == said->rank; k++)
        like = !has_letter(e, o->letter[k]) || got->axes[k].size == said->axes[k].size;
    show(got, a);
    show(said, b);
    if (!like)
        check_fail("infer() of '%s' gives %s the shape [%s] for %s with %s sizes, where it has to "
                   "be [%s]",
                   e->of->c->name, o->name, a, e->text, sizes, b);
}

static void whole(const check_op_example *e)
{
    check_op_answer a;
    check_op_infer(e->of, e->in, e->nin, e->attrs, e->nattr, e->nout, &a);
    if (a.st != WEFT_OK)
        check_fail("infer() of '%s' refuses the operands of its own doc, %s: %s", e->of->c->name,
                   e->text, a.why);
    if (a.nout != e->nout)
        check_fail("infer() of '%s' made %u results for %s, and its doc says %u", e->of->c->name,
                   a.nout, e->text, e->nout);
    for (uint32_t i = 0; i < e->nout; i++)
        compare(e, "whole", i, &a.out[i], &e->out[i]);
}

static void too_little_capacity(const check_op_example *e)
{
    check_op_answer a;
    check_op_infer(e->of, e->in, e->nin, e->attrs, e->nattr, e->nout - 1, &a);
    if (a.st == WEFT_OK)
        check_fail("infer() of '%s' returned WEFT_OK with room for %u results, and it has %u: it "
                   "has to refuse that with WEFT_USAGE",
                   e->of->c->name, e->nout - 1, e->nout);
    if (!*a.why)
        check_fail("infer() of '%s' refuses room for %u results without a sentence", e->of->c->name,
                   e->nout - 1);
}

/* Sizes of one rank of two, for each split that the op accepts. */
static void local(const check_op_example *e)
{
    static describe_doc_row rows[GRAPH_DOC_ROWS];
    uint32_t n = 0;
    check_op_quiet(e->of);
    if (describe_doc_placements(&e->call, rows, &n) != WEFT_OK)
        check_fail("a graph cannot have '%s' in %s: %s", e->of->c->name, e->text, err_text());
    for (uint32_t i = 0; i < n; i++) {
        weft_place places[WEFT_MAX_OPERANDS];
        weft_shape in[WEFT_MAX_OPERANDS];
        check_op_answer a;
        if (!rows[i].accepted || !*rows[i].split)
            continue;
        check_op_places(e, &rows[i], places);
        for (uint32_t k = 0; k < e->nin; k++)
            in[k] = check_op_part(&e->in[k], places[k]);
        check_op_infer(e->of, in, e->nin, e->attrs, e->nattr, e->nout, &a);
        if (a.st != WEFT_OK)
            check_fail("infer() of '%s' refuses the sizes of one rank, %s split in two along %s, "
                       "which its placements allow: %s",
                       e->of->c->name, e->text, rows[i].split, a.why);
        for (uint32_t k = 0; k < e->nout; k++) {
            const weft_shape said = check_op_part(&e->out[k], rows[i].out[k]);
            compare(e, "local", k, &a.out[k], &said);
        }
    }
}

static void one(const check_op_example *e)
{
    whole(e);
    too_little_capacity(e);
    local(e);
}

/* Other checks leave an op out whose doc is wrong. */
static void read_doc(const check_op *of)
{
    static describe_doc doc;
    const weft_status st = describe_doc_read(of->c->name, of->table, &doc);
    if (st != WEFT_OK && st != WEFT_ABSENT)
        check_fail("the doc of the op cannot be read: %s", err_text());
}

void check_op_shapes(check_run *r)
{
    check_op_each(r, read_doc);
    check_op_examples(r, false, NULL, "", one);
}
