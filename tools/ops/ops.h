/* ops/ops.h: what `weft ops` knows of one op, and its three forms: text, JSON and the page
 * docs/OPS.md. Private to this folder. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include <jansson.h>

#include "describe/describe.h"
#include "host/host.h"

/* One example of an op, and the answers of its functions. */
typedef struct ops_variant {
    describe_doc_call call;
    uint32_t nrows;
    describe_doc_row row[GRAPH_DOC_ROWS];
    describe_doc_gradient gradient;
} ops_variant;

typedef struct ops_facts {
    const char *id;
    const weft_op *op;
    const host_component *from; /* the plugin's; NULL: it comes with weft */
    bool documented;
    describe_doc doc; /* if documented */
    uint32_t n;
    ops_variant variant[GRAPH_DOC_CALLS];
} ops_facts;

/* The variant of the same form without its optional input; NULL: it has none. */
const ops_variant *ops_without(const ops_facts *f, const ops_variant *v);

/* "[tokens, in..]" */
const char *ops_shape(const describe_doc *d, const describe_doc_operand *o,
                      char text[GRAPH_DOC_TEXT]);

/* "compute", the word of a type letter. */
const char *ops_type(char letter);

/* "split along heads and kv_heads", "x and b partial sums" */
const char *ops_cause(const ops_variant *v, const describe_doc_row *r, char text[GRAPH_DOC_TEXT]);

/* What comes of row `r`, with the difference that the absent optional input makes: "refused;
 * without b: y partial sum". */
#define OPS_RESULT (2 * GRAPH_DOC_TEXT + 64)
const char *ops_result(const ops_facts *f, const ops_variant *v, const describe_doc_row *r,
                       char text[OPS_RESULT]);

/* Calls `each` for the rows of a variant, and for those that it has only without its optional
 * input. */
typedef void (*ops_each_row)(const ops_facts *f, const ops_variant *v, const describe_doc_row *r);
void ops_rows(const ops_facts *f, const ops_variant *v, ops_each_row each);

/* "yes", "as activation", "as parameter", "-": the gradient of input i. */
const char *ops_gradient(const ops_variant *v, uint32_t i);

/* Names of the inputs (or outputs) of a bit set, separated by ", ". */
const char *ops_set(const describe_doc_operand *o, uint32_t bits, char text[GRAPH_DOC_TEXT]);

/* The formula of FLOPs with the names of axes for their letters. */
const char *ops_formula(const describe_doc *d, char text[2 * GRAPH_DOC_TEXT]);

/* Sentences about flags, each ended by a newline after `prefix`. */
void ops_flags(const ops_facts *f, const char *prefix);

/* --- the three forms --- */

void ops_text(const ops_facts *f);
json_t *ops_json(const ops_facts *f);

/* A list of all ops for the page: facts are made one at a time. */
typedef weft_status (*ops_visit)(const ops_facts *f, void *user);
typedef struct ops_source {
    weft_status (*all)(void *ctx, ops_visit visit, void *user); /* of the core and of plugins */
    void *ctx;
    host *host;
    const host_component *const *plugins;
    uint32_t nplugins;
} ops_source;
weft_status ops_page(const ops_source *s);

/* --- names.c: the other names of the ABI --- */

weft_status ops_names_json(const ops_source *s, json_t **out);
weft_status ops_names_page(const ops_source *s);

#endif
