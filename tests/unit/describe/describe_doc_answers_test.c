/* Is what a description says of an op's placements and gradients what follows from its formula, and
 * is a doc that cannot be read refused in words?
 *
 * graph_shard_test.c checks in numbers that accepted placements are right, graph_gradient_test.c
 * the gradients. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "describe/describe.h"

#include <test.h>

#include "builtin.h"

/* --- placements and gradients --- */

static describe_doc_call example_of(const describe_doc *d, uint32_t form, uint32_t nin)
{
    return (describe_doc_call){.doc = d,
                               .form = &d->form[form],
                               .nin = nin ? nin : d->form[form].nin,
                               .group = 1,
                               .ops = builtin_ops()};
}

/* What follows from the formulas. `nin` 0: all inputs. `row`: letters of split axes, or numbers of
 * the inputs that are partial sums. */
static const struct {
    const char *id;
    uint32_t form, nin;
    const char *row, *result;
} placements[] = {
    {"linear", 0, 2, "T", "y split"},
    {"linear", 0, 2, "I", "y partial sum"},
    {"linear", 0, 0, "I", "refused"}, /* the bias would be added by each coordinate */
    {"linear", 0, 0, "O", "y split"},
    {"linear", 0, 2, "0", "y partial sum"},
    {"linear", 0, 2, "1", "y partial sum"},
    {"linear", 0, 2, "01", "refused"}, /* bilinear */
    {"linear", 0, 0, "0", "refused"},
    {"linear", 0, 0, "02", "y partial sum"},
    {"linear.dx", 0, 0, "O", "dx partial sum"},
    {"linear.dx", 0, 0, "I", "dx split"},
    {"linear.dw", 0, 0, "T", "dw partial sum"},
    {"colsum", 0, 0, "T", "db partial sum"},
    {"colsum", 0, 0, "O", "db split"},
    {"layernorm", 0, 0, "T", "y, mean, rstd split"},
    {"layernorm", 0, 0, "C", "refused"},
    {"layernorm", 0, 0, "0", "refused"},
    {"layernorm.dw", 0, 0, "T", "dg, db partial sum"},
    {"rmsnorm.dx", 0, 0, "0", "dx partial sum"},
    {"attention", 0, 0, "T", "y, lse split"},
    {"attention", 0, 0, "H", "y, lse split"},
    {"attention", 0, 0, "D", "refused"},
    {"attention", 1, 0, "H", "refused"},
    {"attention", 1, 0, "HG", "y, lse split"},
    {"attention.dx", 1, 0, "HG", "dq, dk, dv split"},
    {"attention", 2, 0, "T", "y, lse split"},
    {"attention", 2, 0, "H", "y, lse split"},
    {"attention", 2, 0, "1", "refused"}, /* reach alone is a partial sum */
    {"attention", 3, 0, "HG", "y, lse split"},
    {"attention", 3, 0, "T", "y, lse split"},
    {"attention.dx", 2, 0, "H", "dqkv split"},
    {"attention.dx", 3, 0, "HG", "dq, dk, dv split"},
    {"attention.dx", 3, 0, "T", "dq, dk, dv split"},
    {"rope", 0, 0, "H", "y split"},
    {"rope", 0, 0, "D", "refused"},
    {"embedding", 0, 0, "V", "y partial sum"},
    {"embedding", 0, 0, "F", "y split"},
    {"embedding.dw", 0, 0, "V", "dtable split"},
    {"embedding.dw", 0, 0, "T", "dtable partial sum"},
    {"softmax_xent", 0, 0, "T", "dlogits split, loss partial sum"},
    {"softmax_xent", 0, 0, "V", "refused"},
    {"xent.max", 0, 0, "V", "max partial maximum"},
    {"xent.sums", 0, 0, "V", "sums partial sum"},
    {"xent.finish", 0, 0, "V", "dlogits split, loss whole"},
    {"gelu", 0, 0, "F", "y split"},
    {"gelu", 0, 0, "0", "refused"},
    {"swiglu", 0, 0, "0", "refused"},
    {"swiglu", 0, 0, "1", "y partial sum"},
    {"bias_residual", 0, 0, "02", "refused"},
    {"bias_residual", 0, 0, "012", "y partial sum"},
    {"sumsq", 0, 0, "F", "sum partial sum"},
    {"sumsq", 0, 0, "0", "refused"},
    {"add", 0, 0, "0", "refused"},
    {"add", 0, 0, "01", "y partial sum"},
    {"mul", 0, 0, "0", "y partial sum"},
    {"mul", 0, 0, "01", "refused"},
    {"div", 0, 0, "1", "refused"},
    {"select", 0, 0, "01", "y partial sum"},
    {"select", 0, 0, "2", "refused"},
    {"rename", 0, 0, "A", "y split"},
    {"rename", 0, 0, "0", "y partial sum"},
    {"merge", 0, 0, "A", "y split"},
    {"merge", 0, 0, "Q", "y split along merged"},
    {"merge", 0, 0, "R", "refused"},
    {"merge", 0, 0, "F", "y split"},
    {"merge", 0, 0, "0", "y partial sum"},
    {"unmerge", 0, 0, "A", "y split"},
    {"unmerge", 0, 0, "P", "y split along outer"},
    {"unmerge", 0, 0, "F", "y split"},
    {"unmerge", 0, 0, "0", "y partial sum"},
};

TEST(placements_follow_from_the_formulas)
{
    static describe_doc_row rows[GRAPH_DOC_ROWS];
    static describe_doc d;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        char text[GRAPH_DOC_TEXT] = "refused", row[GRAPH_DOC_TEXT];
        uint32_t n, partial = 0;
        assert_int_equal(describe_doc_read(placements[i].id, builtin_op(placements[i].id), &d),
                         WEFT_OK);
        const describe_doc_call c = example_of(&d, placements[i].form, placements[i].nin);
        const bool split = *placements[i].row >= 'A';
        for (const char *p = placements[i].row; !split && *p; p++)
            partial |= 1u << (*p - '0');
        assert_int_equal(describe_doc_placements(&c, rows, &n), WEFT_OK);
        for (uint32_t k = 0; k < n; k++)
            if (split ? !strcmp(rows[k].split, placements[i].row)
                      : !*rows[k].split && rows[k].partial == partial)
                snprintf(text, sizeof text, "%s", describe_doc_row_text(&d, c.form, &rows[k], row));
        if (strcmp(text, placements[i].result))
            fail_msg("%s, %s: '%s', and it must be '%s'", placements[i].id, placements[i].row, text,
                     placements[i].result);
    }
}

/* What a row says of a group holds for each of its axes; and elementwise ops keep every split. */
TEST(rows_hold_for_groups)
{
    static describe_doc_row one[GRAPH_DOC_ROWS], two[GRAPH_DOC_ROWS];
    static describe_doc d;
    const char *id;
    for (uint32_t i = 0; (id = builtin_id(i)); i++) {
        describe_doc_call c[GRAPH_DOC_CALLS];
        assert_int_equal(describe_doc_read(id, builtin_op(id), &d), WEFT_OK);
        for (uint32_t k = describe_doc_calls(&d, c); k-- > 0;) {
            uint32_t n, m;
            c[k].ops = builtin_ops();
            assert_int_equal(describe_doc_placements(&c[k], one, &n), WEFT_OK);
            c[k].group = 2;
            assert_int_equal(describe_doc_placements(&c[k], two, &m), WEFT_OK);
            assert_int_equal(n, m);
            for (uint32_t r = 0; r < n; r++) {
                assert_string_equal(one[r].split, two[r].split);
                assert_int_equal(one[r].partial, two[r].partial);
                assert_int_equal(one[r].accepted, two[r].accepted);
                for (uint32_t o = 0; o < c[k].form->nout; o++)
                    assert_int_equal(one[r].out[o].kind, two[r].out[o].kind);
                if (d.op->flags & WEFT_OP_ELEMENTWISE && *one[r].split)
                    assert_int_equal(one[r].out[0].kind, WEFT_SPLIT);
            }
        }
    }
}

static const struct {
    const char *id;
    uint32_t form, from, inputs; /* bits; the same for activations and parameters */
    const char *ops;
} gradients[] = {
    {"linear", 0, 1, 7, "linear.dx linear.dw colsum"},
    {"linear.dx", 0, 0, 0, ""},
    {"layernorm", 0, 1, 7, "layernorm.dx layernorm.dw"},
    {"attention", 0, 1, 1, "attention.dx"},
    {"attention", 1, 1, 7, "attention.dx"},
    {"attention", 2, 1, 1, "attention.dx"},
    {"attention", 3, 1, 7, "attention.dx"},
    {"rope", 0, 1, 1, "rope"},
    {"embedding", 0, 1, 1, "embedding.dw"},
    {"softmax_xent", 0, 2, 1, ""},
    {"softmax_xent.loss", 0, 0, 0, ""},
    {"xent.finish", 0, 2, 1, ""},
    {"xent.max", 0, 0, 0, ""},
    {"gelu", 0, 1, 3, "gelu.dx colsum"},
    {"bias_residual", 0, 1, 7, "colsum"},
    {"add", 0, 1, 3, ""},
    {"mul", 0, 1, 3, "mul"},
    {"select", 0, 1, 3, "select"},
    {"sign", 0, 0, 0, ""},
    {"less", 0, 0, 0, ""},
    {"rename", 0, 1, 1, "rename"},
    {"merge", 0, 1, 1, "unmerge"},
    {"unmerge", 0, 1, 1, "merge"},
    {"sumsq", 0, 0, 0, ""},
};

TEST(gradients_are_those_of_the_formulas)
{
    static describe_doc d;
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++) {
        describe_doc_gradient g;
        assert_int_equal(describe_doc_read(gradients[i].id, builtin_op(gradients[i].id), &d),
                         WEFT_OK);
        const describe_doc_call c = example_of(&d, gradients[i].form, 0);
        assert_int_equal(describe_doc_gradients(&c, &g), WEFT_OK);
        if (g.from != gradients[i].from || g.inputs != gradients[i].inputs ||
            g.params != gradients[i].inputs || strcmp(g.ops, gradients[i].ops))
            fail_msg("%s: of %x to %x and %x by '%s'", gradients[i].id, g.from, g.inputs, g.params,
                     g.ops);
    }
}

/* --- docs that cannot be read --- */

#define GOOD .help = "h", .operands = "x:cTC", .results = "y:cT", .axes = "T tokens, C embed"
static const struct {
    weft_op_doc doc;
    const char *why;
} bad[] = {
    {{.operands = "x:c", .results = "y:c"}, "its doc has no help"},
    {{.help = "h", .results = "y:c"}, "its doc has no operands"},
    {{GOOD, .formula = ""}, "one line of 1 to 511 printable ASCII"},
    {{GOOD, .formula = "2\n"}, "one line of 1 to 511 printable ASCII"},
    {{.help = "h", .operands = "x", .results = "y:c"}, "a name of lower-case letters"},
    {{.help = "h", .operands = "X:c", .results = "y:c"}, "a name of lower-case letters"},
    {{.help = "h", .operands = "x:z", .results = "y:c"}, "a type is expected: c, g, f, i, l or x"},
    {{.help = "h", .operands = "x:c*t", .results = "y:c"}, "an axis is expected"},
    {{.help = "h", .operands = "x:cABCDEFGHI", .results = "y:c"}, "too many axes"},
    {{.help = "h", .operands = "x:c? z:c", .results = "y:c"}, "has to be given follows one"},
    {{.help = "h", .operands = "x:c ", .results = "y:c"}, "a name of lower-case letters"},
    {{.help = "h", .operands = "x:c | z:c", .results = "y:c"}, "2 forms of operands and 1 of"},
    {{.help = "h", .operands = "x:cT", .results = "y:c"},
     "axes of its doc, \"\", at \"T\": this axis"},
    {{.help = "h", .operands = "x:cT", .results = "y:c", .axes = "T"}, "a blank and a name"},
    {{.help = "h", .operands = "x:cT", .results = "y:c", .axes = "T a, T b"}, "letter of its own"},
    {{GOOD, .attributes = "k int 1"}, "a default and a meaning"},
    {{GOOD, .attributes = "* int - m"}, "the name of an axis is expected"},
    {{GOOD, .attributes = "k text 1 m"}, "the type int or real"},
    {{GOOD, .attributes = "k int one m"}, "a number, '-'"},
};

TEST(bad_docs_are_refused)
{
    static describe_doc d;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_op op = *builtin_op("linear");
        weft_op_doc doc = bad[i].doc;
        doc.struct_size = sizeof doc;
        op.doc = &doc;
        err_clear();
        assert_int_equal(describe_doc_read("acme.x", &op, &d), WEFT_USAGE);
        if (!strstr(err_text(), bad[i].why) || !strstr(err_text(), "op acme.x: "))
            fail_msg("expected '%s' in: %s", bad[i].why, err_text());
    }
}

/* Inputs at the end that may be absent: an example with all of them, and one for each number. */
TEST(several_inputs_may_be_absent)
{
    static describe_doc d;
    describe_doc_call c[GRAPH_DOC_CALLS];
    weft_op op = *builtin_op("linear");
    const weft_op_doc doc = {.struct_size = sizeof doc,
                             .help = "h",
                             .operands = "x:c b:c? r:c? | x:c z:c | u:c? v:c? w:c? x:c?",
                             .results = "y:c | y:c | y:c"};
    op.doc = &doc;
    assert_int_equal(describe_doc_read("acme.x", &op, &d), WEFT_OK);
    static const uint32_t want[] = {3, 2, 1, 2, 4, 3, 2, 1};
    assert_int_equal(describe_doc_calls(&d, c), sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(c[i].nin, want[i]);
}

/* The members that an older plugin does not have are absent; an op need not have a doc. */
TEST(short_docs_are_read)
{
    static describe_doc d;
    weft_op op = *builtin_op("linear");
    weft_op_doc doc = {.struct_size = offsetof(weft_op_doc, attributes),
                       GOOD,
                       .attributes = "not read",
                       .formula = "not read"};
    op.doc = &doc;
    assert_int_equal(describe_doc_read("acme.x", &op, &d), WEFT_OK);
    assert_int_equal(d.nattrs, 0);
    assert_null(d.text.formula);
    op.doc = NULL;
    assert_int_equal(describe_doc_read("acme.x", &op, &d), WEFT_ABSENT);
}
