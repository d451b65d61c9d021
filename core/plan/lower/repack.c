/* plan/lower/repack.c: see repack.h. */
#include "plan/lower/repack.h"

#include "plan/emit.h"

static int64_t product(const weft_shape *s, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t i = from; i < to; i++)
        n *= s->axes[i].size;
    return n;
}

void plan_repack_find(const graph *g, const graph_node *n, plan_repack *out)
{
    const bool cuts = n->comm == WEFT_REDUCE_SCATTER || n->comm == WEFT_ALL_TO_ALL;
    const bool joins = n->comm == WEFT_ALL_GATHER || n->comm == WEFT_ALL_TO_ALL;
    const int64_t ranks = g->mesh->size[n->mesh_axis];
    weft_shape part = graph_local_shape(g, n->in[0]); /* of what goes between two ranks */
    *out = (plan_repack){.dtype = part.dtype};
    if (cuts) {
        part.axes[n->cuts].size /= ranks;
        out->pack[0] = product(&part, 0, n->cuts);
        out->pack[1] = ranks;
        out->pack[2] = product(&part, n->cuts, part.rank);
        out->packs = out->pack[0] > 1;
    }
    if (joins) {
        out->unpack[0] = ranks;
        out->unpack[1] = product(&part, 0, n->joins);
        out->unpack[2] = product(&part, n->joins, part.rank);
        out->unpacks = out->unpack[1] > 1;
    }
    if (out->packs || out->unpacks)
        out->bytes = (uint64_t)(product(&part, 0, part.rank) * ranks) * weft_dtype_size(part.dtype);
}

weft_opspec plan_repack_spec(const plan_repack *r, const int64_t from[3], weft_operand io[2])
{
    io[0] = (weft_operand){.dtype = r->dtype, .rank = 3, .size = {from[0], from[1], from[2]}};
    io[1] = (weft_operand){.dtype = r->dtype, .rank = 3, .size = {from[1], from[0], from[2]}};
    return plan_unary_spec("interchange", io, 0);
}
