/* describe/describe.h: what an op is, from its doc (weft/op.h) and from its own functions.
 *
 * The doc names operands, shapes and attributes. Everything else is asked: an example of the op is
 * built in a graph of its own, and shard() and grad() answer for it as they do in a plan. So a
 * description cannot differ from what a plan does. All functions: [plan]. */
#ifndef DESCRIBE_DESCRIBE_H
#define DESCRIBE_DESCRIBE_H

#include "graph/graph.h"

#define GRAPH_DOC_FORMS 4
#define GRAPH_DOC_ATTRS 15
#define GRAPH_DOC_GROUP 3  /* the most axes of a group in an example */
#define GRAPH_DOC_TEXT 512 /* the longest text of a doc */

/* One operand. Axis letters are 'A' to 'Z', and '3'; `group` has bit k where letter k is a group of
 * one axis or more. */
typedef struct describe_doc_operand {
    char name[24];
    char type; /* 'c' 'g' 'f' 'i' 'l' 'x', see weft/match.h */
    uint32_t n, group;
    char letter[WEFT_MAX_AXES];
    bool optional; /* an input that may be absent, with those behind it */
} describe_doc_operand;

typedef struct describe_doc_form {
    uint32_t nin, nout;
    describe_doc_operand in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
} describe_doc_form;

typedef struct describe_doc_attr {
    char key[WEFT_MAX_NAME]; /* "*in": the name of an axis */
    bool real, required;
    char size_of; /* required: a letter whose size it has in examples; 0: it is 1 there */
    double dflt;  /* unless required */
    char meaning[GRAPH_DOC_TEXT];
} describe_doc_attr;

typedef struct describe_doc {
    const char *id;
    const weft_op *op;
    weft_op_doc text;
    uint32_t nforms, nattrs;
    describe_doc_form form[GRAPH_DOC_FORMS];
    describe_doc_attr attr[GRAPH_DOC_ATTRS];
    char axis[26][GRAPH_DOC_GROUP][WEFT_MAX_NAME]; /* by letter - 'A': "in", "in2", "in3" */
} describe_doc;

/* Parse the doc of an op. WEFT_USAGE names the op, the text and what is wrong with it; WEFT_ABSENT
 * (no message): it has none. `out` refers to `op` and `id`. */
weft_status describe_doc_read(const char *id, const weft_op *op, describe_doc *out);

/* The name of axis k of an operand, "three" for '3'. A group is one axis. [any] */
const char *describe_doc_axis(const describe_doc *d, const describe_doc_operand *o, uint32_t k);

/* An example: a form of the op, with its first `nin` inputs, and groups of `group` axes. Sizes are
 * even. */
typedef struct describe_doc_call {
    const describe_doc *doc;
    const describe_doc_form *form;
    uint32_t nin, group;
    graph_ops ops; /* with those that grad() may append */
} describe_doc_call;

/* Every example of an op with groups of one axis: each form, first with its optional inputs and
 * then without the last, without the last two, and so on. Returns their number; `out` has room for
 * GRAPH_DOC_CALLS. */
#define GRAPH_DOC_OPTIONAL 3 /* the most inputs that examples leave out */
#define GRAPH_DOC_CALLS ((1 + GRAPH_DOC_OPTIONAL) * GRAPH_DOC_FORMS)
uint32_t describe_doc_calls(const describe_doc *d, describe_doc_call *out);

/* The shapes that the doc says, of inputs and outputs, in fp32 where the type is free. WEFT_USAGE
 * where an operand would have more axes than a tensor can. */
weft_status describe_doc_shapes(const describe_doc_call *c, weft_shape *in, weft_shape *out);

/* Values for the attributes: defaults, and 1 for those without; of a key "*in", the key "in" and
 * the number of the axis in the first operand that has it, else 0. Returns how many there are;
 * `out` has room for GRAPH_DOC_ATTRS. */
uint32_t describe_doc_attrs(const describe_doc_call *c, weft_attr *out);

/* How placements along one mesh axis of two coordinates pass through the op. */
typedef struct describe_doc_row {
    char split[3];    /* the axes along which every input that has one is split; "": none */
    uint32_t partial; /* the inputs that are partial sums, a bit each */
    bool accepted;
    weft_place out[WEFT_MAX_OPERANDS];
} describe_doc_row;
#define GRAPH_DOC_ROWS 96

/* "y, lse split": the outputs of a row of the form; "refused". */
const char *describe_doc_row_text(const describe_doc *d, const describe_doc_form *f,
                                  const describe_doc_row *r, char text[GRAPH_DOC_TEXT]);

/* The rows: a split along each axis letter, in the order of the inputs; pairs of letters that are
 * accepted together only; and the sets of up to three partial sums that are accepted. Inputs not in
 * a row are whole. WEFT_USAGE: infer() does not accept the documented operands. */
weft_status describe_doc_placements(const describe_doc_call *c,
                                    describe_doc_row rows[GRAPH_DOC_ROWS], uint32_t *n);

/* Which inputs get a gradient. */
typedef struct describe_doc_gradient {
    uint32_t from; /* outputs into which a gradient may flow, a bit each; 0: no gradient */
    uint32_t inputs, params;  /* inputs with a gradient in the parts B and W, a bit each */
    char ops[GRAPH_DOC_TEXT]; /* the ids of the ops that it appends, separated by blanks */
} describe_doc_gradient;
weft_status describe_doc_gradients(const describe_doc_call *c, describe_doc_gradient *out);

#endif
