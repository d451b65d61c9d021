/* plan/optim/graph_to_list.h: a small graph becomes entries of a list: update rules that are not
 * elementwise, and the lists that plugins bring.
 *
 * coalesce.c runs several of these graphs side by side; plan_graph_to_list() and
 * plan_graphs_to_list() are its entry points. The rest is what graph_to_list.c and coalesce.c
 * share. */
#ifndef PLAN_OPTIM_GRAPH_TO_LIST_H
#define PLAN_OPTIM_GRAPH_TO_LIST_H

#include "plan/builder.h"

typedef struct tensor_place { /* where a tensor is: on coordinate c of `axis` at + c * shift */
    uint64_t at, shift;
    uint32_t axis, dtype;
} tensor_place;

typedef struct graph_to_list_job {
    const char *name;
    weft_tensor gate; /* 0: none */
    /* Where a parameter, gradient or state is; false for a temporary. */
    bool (*find)(void *ctx, weft_tensor t, tensor_place *out);
    void *ctx;
} graph_to_list_job;

typedef struct graph_to_list_work { /* nodes [first, end) of a graph */
    graph *g;
    uint32_t first, end;
    graph_to_list_job job;
} graph_to_list_work;

/* Write the nodes [first, end) of `g` into the list. */
weft_status plan_graph_to_list(builder *b, list *l, graph *g, uint32_t first, uint32_t end,
                               const graph_to_list_job *what);

/* Write as many from `w` on as can wait for each other without more memory than the micro-batches
 * took, and at least one; *done is how many. Their sums of single numbers are coalesced. */
weft_status plan_graphs_to_list(builder *b, list *l, const graph_to_list_work *w, uint32_t n,
                                uint32_t *done);

/* --- one graph on its way --- */

typedef struct graph_to_list {
    builder *b;
    list *l;
    graph *g;
    const graph_to_list_job *job;
    VEC(node) order;  /* nodes, assignments that are put off at the end */
    uint32_t at;      /* node in order that comes next */
    uint32_t *last;   /* [tensor] 1 + last run that reads it */
    uint32_t *run_of; /* [node in order] */
    uint64_t *temp;   /* [tensor] 1 + offset in the zone */
    uint64_t *cell;   /* [tensor] 1 + offset in the zone, of a number that coalesce.c has placed */
    bool *wanted;     /* [tensor] another run reads it */
} graph_to_list;

/* `by_levels`: sums of numbers come as late as they can, those that do not need each other side by
 * side. End it with plan_graph_to_list_end(), which gives back what is left in the zone. */
void plan_graph_to_list_begin(graph_to_list *s, builder *b, list *l, const graph_to_list_work *w,
                              bool by_levels);
void plan_graph_to_list_end(graph_to_list *s);

/* Is this an all-reduce of one number that nobody else reads? */
bool plan_graph_to_list_sums_number(const graph_to_list *s, const node *n);

/* Write nodes to the list up to the next of that kind, or the end. */
weft_status plan_graph_to_list_resume(graph_to_list *s);

/* Does it have such a sum? *held: bytes of temporaries that wait for the first, or of all. */
bool plan_graph_to_list_held(const graph_to_list *s, uint64_t *held);

#endif
