/* check/op/op.h: examples of a plugin's ops, and calls of their functions; private to this folder.
 *
 * An example is built from the doc of an op (graph/describe): shapes, attributes, and the number of
 * operands of one form. Functions are called with exactly the memory that they may use: arguments
 * end at a page without access, and what lies behind the room of a result has a known pattern. An
 * op without doc is noted by check_absent(), since the check cannot know what it takes. */
#ifndef CHECK_OP_OP_H
#define CHECK_OP_OP_H

#include "check/harness/harness.h"
#include "describe/describe.h"

/* An op of the file, with an open module. */
typedef struct check_op {
    check_run *run;
    check_host *host;
    void *module;
    const host_component *c;
    const weft_op *table;
    const weft_conf *conf;
    const describe_doc *doc; /* NULL: it has none */
} check_op;

/* Call `fn` for each op of the file. */
void check_op_each(check_run *r, void (*fn)(const check_op *of));

/* A call of an op. Small examples have at most a few hundred elements an operand. */
typedef struct check_op_example {
    const check_op *of;
    describe_doc_call call;
    weft_shape in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS];
    weft_attr attrs[GRAPH_DOC_ATTRS];
    uint32_t nin, nout, nattr;
    double scale;   /* of the inputs' values: about 1, 32 or 1/32 */
    bool varied;    /* other attributes or another scale than in the first of these examples */
    char text[400]; /* "the example x:[4096, 2048]", for messages */
} check_op_example;

/* Call `fn` for each example of each op of the file; for small ones again with inputs of about 32
 * and 1/32, and with other numbers and flags in the attributes. `wants`: only ops for which it is
 * true; NULL: all. Where it is true for no op, the check is not applicable, because none `has` it.
 */
typedef void (*check_op_use)(const check_op_example *e);
void check_op_unknown(const check_op_example *e, const char *fmt, ...) /* check_absent(), unless */
    __attribute__((format(printf, 2, 3)));                             /* the example is varied */
void check_op_examples(check_run *r, bool small, bool (*wants)(const weft_op *op), const char *has,
                       check_op_use fn);

/* --- functions of ops: ask.c --- */

typedef struct check_op_answer {
    weft_status st;
    char why[1024]; /* the sentence of a failure; "": none */
    weft_shape out[WEFT_MAX_OPERANDS];
    uint32_t nout;
} check_op_answer;

/* infer() with shapes of the caller's and room for `capacity` results. What it writes beyond fails
 * the check, and so does a status that is no result of a function. */
void check_op_infer(const check_op *of, const weft_shape *in, uint32_t nin, const weft_attr *attrs,
                    uint32_t nattr, uint32_t capacity, check_op_answer *a);

/* The call has returned `st`: its sentence into `why`. Fails the check for an unknown status. */
void check_op_answered(const check_op *of, const char *call, weft_status st, char why[1024]);
void check_op_quiet(const check_op *of); /* forget the sentence of the last failure */

/* --- the example in a graph of its own: ask.c --- */

typedef struct check_op_graph {
    graph_mesh ranks; /* one axis of two coordinates */
    graph g;          /* the op is its first node */
    weft_tensor in[WEFT_MAX_OPERANDS], out[WEFT_MAX_OPERANDS], dout[WEFT_MAX_OPERANDS];
    weft_tensor din[2][WEFT_MAX_OPERANDS]; /* after WEFT_GRAD_INPUTS, and after both parts */
} check_op_graph;

/* Inputs of real numbers have the kind `kind` (WEFT_T_...). Fails the check if the core or the op
 * refuses. Free with graph_free(). */
void check_op_build(const check_op_example *e, uint32_t kind, check_op_graph *x);

/* The same, and what grad() appends where a gradient flows into the outputs `from`, a bit each. A
 * failure without a sentence fails the check. Free with graph_free() in any case. */
weft_status check_op_derive(const check_op_example *e, uint32_t kind, uint32_t from,
                            check_op_graph *x);
bool check_op_has_grad(const weft_op *op);

/* --- placements --- */

/* Those of the inputs in a row of describe_doc_placements(). */
void check_op_places(const check_op_example *e, const describe_doc_row *row, weft_place *in);

/* The shape of a part of two, as a placement says. */
weft_shape check_op_part(const weft_shape *s, weft_place p);

/* --- checks --- */
void check_op_shapes(check_run *r);     /* infer.c */
void check_op_refuses(check_run *r);    /* refuse.c */
void check_op_gradients(check_run *r);  /* finite.c */
void check_op_subsets(check_run *r);    /* grad.c */
void check_op_parts(check_run *r);      /* parts.c */
void check_op_says_why(check_run *r);   /* place.c */
void check_op_whole_axes(check_run *r); /* place.c */
void check_op_flops(check_run *r);      /* cost.c */
void check_op_in_place(check_run *r);   /* parts.c */
void check_op_keys(check_run *r);       /* keys.c */

#endif
