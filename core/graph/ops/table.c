/* graph/ops/table.c: the families of core ops, found by id. */
#include <string.h>

#include "graph/ops/util.h"

static const graph_op_entry *const families[] = {
    graph_op_linear_family,    graph_op_norm_family,        graph_op_rmsnorm_family,
    graph_op_attention_family, graph_op_rope_family,        graph_op_embedding_family,
    graph_op_loss_family,      graph_op_elementwise_family, graph_op_misc_family,
    graph_op_swiglu_family,    graph_op_vocab_loss_family,  graph_op_rename_family,
    graph_op_axis_family,      graph_op_random_family,      graph_op_cached_family,
};
#define FAMILIES (sizeof families / sizeof *families)

const weft_op *graph_core_op(const char *id)
{
    for (size_t f = 0; f < FAMILIES; f++)
        for (const graph_op_entry *e = families[f]; e->id; e++)
            if (!strcmp(e->id, id))
                return &e->op;
    return NULL;
}

const char *graph_core_op_id(uint32_t i)
{
    for (size_t f = 0; f < FAMILIES; f++)
        for (const graph_op_entry *e = families[f]; e->id; e++)
            if (!i--)
                return e->id;
    return NULL;
}
