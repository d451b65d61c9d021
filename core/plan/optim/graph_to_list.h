/* plan/optim/graph_to_list.h: turns a small graph into entries of a list: update rules, and
 * periodic lists of plugins.
 *
 * coalesce.c runs several of these graphs interleaved; plan_graph_to_list() and
 * plan_graphs_to_list() are the entry points. The rest is shared by graph_to_list.c, runs.c
 * and coalesce.c. */
#ifndef PLAN_OPTIM_GRAPH_TO_LIST_H
#define PLAN_OPTIM_GRAPH_TO_LIST_H

#include "plan/builder.h"

typedef struct plan_tensor_place { /* address on coordinate c of `axis`: at + c * shift */
    uint64_t at, shift;
    uint32_t axis, dtype;
} plan_tensor_place;

typedef struct plan_to_list_job {
    const char *name;    /* of the entries */
    const char *segment; /* of the segments; NULL: the same */
    weft_tensor gate;    /* 0: none */
    bool absolute;       /* scalars have no bases of their own, but their offsets in the arena */
    /* Find the address of a parameter, gradient or state; false for a temporary. NULL: all are. */
    bool (*find)(void *ctx, weft_tensor t, plan_tensor_place *out);
    void *ctx;
    const char *param; /* of an update: the parameter, whose random numbers are its own; or NULL */
} plan_to_list_job;

typedef struct plan_to_list_work {
    graph *g;                 /* the tensors */
    const graph_nodes *nodes; /* those of the graph, or others of its tensors */
    plan_to_list_job job;
} plan_to_list_work;

/* Write the nodes into the list. */
weft_status plan_graph_to_list(plan_builder *b, plan_list *l, const plan_to_list_work *w);

/* Write the first graphs of `w`: as many as can be interleaved within the memory of the
 * micro-batches, at least one; *done is how many. Their sums of single numbers are coalesced. */
weft_status plan_graphs_to_list(plan_builder *b, plan_list *l, const plan_to_list_work *w,
                                uint32_t n, uint32_t *done);

/* --- one graph in progress --- */

typedef struct plan_to_list {
    plan_builder *b;
    plan_list *l;
    graph *g;
    const graph_nodes *nodes;
    const plan_to_list_job *job;
    pool *memory;      /* of the arrays */
    graph_nodes order; /* `nodes`; deferred assignments are last */
    uint32_t at;       /* next node in order */
    uint32_t *last;    /* [tensor] 1 + last run that reads it */
    uint32_t *run_of;  /* [node in order] */
    uint64_t *temp;    /* [tensor] 1 + offset in the zone */
    uint64_t *cell;    /* [tensor] 1 + offset in the zone, of a number placed by coalesce.c */
    bool *wanted;      /* [tensor] another run reads it */
} plan_to_list;

/* --- runs.c --- */

/* Is the node part of an elementwise program? */
bool plan_runs_elementwise(const graph *g, const graph_node *n);

/* Set run_of, last and wanted from order; within a run that is cut, nodes change their order. */
void plan_runs_divide(plan_to_list *s);

/* The program of nodes [first, end) of order, whose results that are wanted are outputs, too. */
weft_status plan_runs_fuse(plan_to_list *s, uint32_t first, uint32_t end, pool *memory,
                           graph_fused *out);

/* --- graph_to_list.c --- */

/* Begin with b, l and memory set. `by_levels`: sums of numbers come as late as possible,
 * independent ones next to each other. plan_graph_to_list_end() frees what it has in the zone. */
void plan_graph_to_list_begin(plan_to_list *s, const plan_to_list_work *w, bool by_levels);
void plan_graph_to_list_end(plan_to_list *s);

/* Is this an all-reduce of one number that no other node reads? */
bool plan_graph_to_list_sums_number(const plan_to_list *s, const graph_node *n);

/* Write nodes to the list up to the next such sum, or the end. */
weft_status plan_graph_to_list_resume(plan_to_list *s);

/* Does it have such a sum? *held: bytes of temporaries that are live at the first one, or of
 * all. */
bool plan_graph_to_list_held(const plan_to_list *s, uint64_t *held);

#endif
