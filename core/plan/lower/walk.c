/* plan/lower/walk.c: what all that visit the works of a list ask. */
#include "plan/lower/walk.h"

routine *walk_routine(const walk *w, const work *x)
{
    return &w->routines[(x->block * 2 + x->backward) * 2 + x->first];
}

uint64_t walk_bytes(const walk *w, weft_tensor t)
{
    weft_shape s = graph_local(w->b->g, t);
    return shape_bytes(&s);
}
