/* A whole graph in double precision, node after node, on the ops of op_eval.h. */
#ifndef GRAPH_EVAL_H
#define GRAPH_EVAL_H

#include <stdlib.h>

#include "graph/graph.h"

#include "op_eval.h"

typedef struct evaluation {
    graph *g;
    double **value; /* [tensor handle] */
} evaluation;

/* Room for every tensor; constants have their value, all else is zero. */
static evaluation eval_begin(graph *g)
{
    evaluation e = {g, calloc(g->tensors.n + 1, sizeof(double *))};
    for (weft_tensor t = 1; t <= g->tensors.n; t++) {
        const graph_tensor *x = graph_tensor_at(g, t);
        e.value[t] = calloc((size_t)eval_elements(&x->shape), sizeof(double));
        if (x->constant)
            e.value[t][0] = x->value;
    }
    return e;
}

static void eval_end(evaluation *e)
{
    for (weft_tensor t = 1; t <= e->g->tensors.n; t++)
        free(e->value[t]);
    free(e->value);
}

static void eval_node(evaluation *e, const graph_node *n)
{
    check_call c;
    eval_begin_op(&c, n->assign ? "copy" : n->id, n->attrs, n->nattr);
    for (uint32_t i = 0; i < n->nin; i++)
        check_call_from(&c, graph_tensor_at(e->g, n->in[i])->shape, e->value[n->in[i]]);
    for (uint32_t i = 0; i < n->nout; i++) {
        const weft_shape *s = &graph_tensor_at(e->g, n->out[i])->shape;
        check_call_to(&c, *s, calloc((size_t)eval_elements(s), sizeof(double)));
    }
    eval_op(&c);
    for (uint32_t i = 0; i < n->nout; i++) {
        int add = graph_tensor_at(e->g, n->out[i])->kind == WEFT_T_GRAD;
        for (int64_t k = 0; k < check_operand_count(&c.out[i]); k++)
            e->value[n->out[i]][k] = c.y[i][k] + (add ? e->value[n->out[i]][k] : 0);
        free(c.y[i]);
    }
}

/* Nodes [first, end); assignments only after everything else. */
static void eval_nodes(evaluation *e, uint32_t first, uint32_t end)
{
    for (int assign = 0; assign < 2; assign++)
        for (uint32_t i = first; i < end; i++)
            if (e->g->nodes.at[i].assign == assign)
                eval_node(e, &e->g->nodes.at[i]);
}

#endif
