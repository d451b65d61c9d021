/* plan/lower/walk.c: queries that are shared by the visitors of a list's works. */
#include "plan/lower/walk.h"

lowered_block *plan_walk_lowered(const walk *w, const work *x)
{
    return &w->lowered[(x->block * 2 + x->backward) * 2 + x->first];
}

uint64_t plan_walk_bytes(const walk *w, weft_tensor t)
{
    weft_shape s = graph_local_shape(w->b->g, t);
    return graph_shape_bytes(&s);
}
