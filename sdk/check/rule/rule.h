/* check/rule/rule.h: the graph that an update rule writes, and its values in double precision;
 * private to this folder.
 *
 * A check builds the update of one parameter as the core does, with sizes and options of its own,
 * and runs it step by step with an interpreter of graphs, whose ops are check/reference's. Nothing
 * of the core's lowering, fusion or kernels takes part, so the two are independent. */
#ifndef CHECK_RULE_RULE_H
#define CHECK_RULE_RULE_H

#include "check/harness/harness.h"
#include "graph/graph.h"

#include <weft/optim.h>

/* A rule of the file, with an open module. */
typedef struct check_rule {
    check_run *run;
    check_host *host;
    void *module;
    const host_component *c;
    const weft_rule *table;
    const weft_conf *conf;
    char set[200]; /* " with weight_decay = 1": for messages; "": all options have defaults */
} check_rule;

/* Call `fn` for each rule of the file. */
void check_rule_each(check_run *r, void (*fn)(check_rule *of));

/* Close the module and open another one. */
void check_rule_reopen(check_rule *of);

/* Give one or two options a value; NULL: all have defaults again. */
void check_rule_set(check_rule *of, const char *key, const char *value, const char *also,
                    const char *also_value);

/* Call `fn` with each option at each of its bounds or choices, and first with all defaults. */
void check_rule_values(check_rule *of, void (*fn)(check_rule *of));

/* The bounds of an option, or its choices, as text: number `i`; false: there are no more. */
bool check_rule_value(const weft_option *o, uint32_t i, char *out, size_t size);

/* --- graphs: graph.c --- */

typedef struct check_rule_graph {
    graph g;
    graph_mesh ranks; /* one axis, for a split parameter; no axis otherwise */
    weft_tensor param, grad, gate;
} check_rule_graph;

typedef struct check_rule_ask {
    uint32_t flags;      /* WEFT_PARAM_MATRIX */
    uint32_t size[3], n; /* of the parameter; a rule of unit element sees them as one range */
    const char *name;    /* NULL: "p" */
    const char *role;    /* NULL: none; a rule of unit element gets none */
    uint32_t ranks;      /* over which the first axis is split; 0: it is whole */
} check_rule_ask;

/* Build an update. A failure is returned with a sentence in check_rule_why(); without a sentence it
 * fails the check. Free the graph in both cases. */
weft_status check_rule_build(check_rule *of, const check_rule_ask *ask, check_rule_graph *out);
void check_rule_must(check_rule *of, const check_rule_ask *ask, check_rule_graph *out);
const char *check_rule_why(const check_rule *of);

/* Whether two graphs differ, and the first difference; with `sizes` those of axes count, too. */
#define CHECK_RULE_WORDS 200
bool check_rule_differ(const graph *a, const graph *b, bool sizes, char out[CHECK_RULE_WORDS]);

/* --- values: eval.c --- */

/* Values of all tensors of a graph: value[rank * (tensors + 1) + tensor]. */
typedef struct check_rule_run {
    const check_rule_graph *of;
    bool narrow; /* every result is rounded to fp32, and states to their type */
    double **value;
    uint32_t ranks;
    double steps, updates; /* so far */
} check_rule_run;

/* The op that the interpreter does not know; NULL: it knows all. */
const char *check_rule_unknown(const graph *g);

/* All states have their initial values, and the parameter `start` (NULL: zeros). Free with
 * check_rule_end(). */
void check_rule_begin(check_rule_run *x, const check_rule_graph *of, bool narrow,
                      const double *start);
void check_rule_end(check_rule_run *x);

/* A step with the gradient `grad` of the whole parameter; `skipped`: the gate is shut. */
void check_rule_step(check_rule_run *x, const double *grad, double lr, bool skipped);

/* The value of a tensor, whole, into out[elements]; returns the elements. */
uint64_t check_rule_read(const check_rule_run *x, weft_tensor t, double *out);

/* The largest magnitude of the parameter; and the first tensor that is kept between steps and is
 * not finite, NULL: none. */
double check_rule_largest(const check_rule_run *x);
const char *check_rule_infinite(const check_rule_run *x);

/* Whether parameter, states and scalars are equal, bit by bit; the name of the first that is not,
 * or NULL. The graphs have the same tensors. */
const char *check_rule_same(const check_rule_run *a, const check_rule_run *b);

/* Gradients: `n` numbers of about 1, other ones at each step. */
void check_rule_gradient(const check_rule *of, uint32_t step, double scale, double *out,
                         uint32_t n);

#define CHECK_RULE_MAX 4096u /* elements of a parameter that is computed */

/* --- checks --- */
void check_rule_assigned(check_run *r);   /* once.c */
void check_rule_alike(check_run *r);      /* once.c */
void check_rule_capacity(check_run *r);   /* once.c */
void check_rule_cut(check_run *r);        /* parts.c */
void check_rule_split(check_run *r);      /* parts.c */
void check_rule_gate(check_run *r);       /* step.c */
void check_rule_finite(check_run *r);     /* step.c */
void check_rule_decay(check_run *r);      /* step.c */
void check_rule_options(check_run *r);    /* options.c */
void check_rule_trajectory(check_run *r); /* path.c */
void check_rule_resume(check_run *r);     /* path.c */

#endif
