/* comm/place.c: where the places of a schedule are in memory, peers' included. */
#include "base/check.h"
#include "comm/engine.h"

char *op_resolve(const comm_op *op, const comm_place *p, uint64_t bytes)
{
    if (p->buffer < COMM_PEER_IN)
        return op->base[p->buffer] + p->at;
    const comm_link *l = op->channel->link;
    uint32_t rank = op->channel->ranks[p->rank];
    const comm_whereabouts *w = &op->where[p->rank];
    uint64_t at;
    if (!ck_add(p->buffer == COMM_PEER_IN ? w->in : w->out, p->at, &at) ||
        !ck_range(at, bytes, l->mapped_bytes[rank]))
        return NULL;
    return l->mapped[rank] + at;
}
