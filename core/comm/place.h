/* comm/place.h: addresses of the places of a schedule, peers' included. Inline, because the engine
 * resolves every operand of every step. */
#ifndef COMM_PLACE_H
#define COMM_PLACE_H

#include "base/number/check.h"
#include "comm/engine.h"

/* The address of `p`; NULL: the peer gave an offset outside its arena. [progress] */
static inline char *comm_op_resolve(const comm_op *op, const sched_place *p, uint64_t bytes)
{
    if (p->buffer < SCHED_PEER_IN)
        return op->base[p->buffer] + p->at;
    const comm_link *l = op->channel->link;
    uint32_t rank = op->channel->ranks[p->rank];
    const sched_buffer_offsets *w = &op->where[p->rank];
    uint64_t at;
    if (!check_add(p->buffer == SCHED_PEER_IN ? w->in : w->out, p->at, &at) ||
        !check_range(at, bytes, l->mapped_bytes[rank]))
        return NULL;
    return l->mapped[rank] + at;
}

#endif
