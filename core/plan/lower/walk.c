/* plan/lower/walk.c: queries that are shared by the visitors of a list's works. */
#include "plan/lower/walk.h"

plan_lowered_block *plan_walk_lowered(const plan_list_builder *w, const plan_block_pass *x)
{
    return &w->lowered[(x->block * 2 + x->backward) * 2 + x->first];
}

uint64_t plan_walk_bytes(const plan_list_builder *w, weft_tensor t)
{
    weft_shape s = graph_local_shape(w->b->g, t);
    return graph_shape_bytes(&s);
}
