/* comm/select.c: which algorithm `auto` means, and the thresholds that measurements set.
 *
 * The choice depends on what is the same on all ranks of a group (kind, bytes, ranks, type and the
 * link's abilities) and on nothing else, for ranks that chose differently would wait for ever. */
#include "comm/schedule.h"

/* All bytes are of the larger side. Measured on 2 and 4 ranks of one machine with 2 cores. */
#define EXCHANGE_MAX                                                                               \
    (4u << 10)                /* all-reduce: one round of whole inputs up to here, times n - 1     \
                               */
#define MAPPED_MIN (2u << 10) /* ... peers' memory from here on */
#define MAPPED_MOVE_MIN (4u << 10) /* the same for kinds that only move bytes */
#define FEW_RANKS 16u              /* up to here all pairs at once beat rounds */
#define HALVING_MAX (256u << 10)   /* many ranks: few rounds up to here, then the ring */
#define TREE_MAX (64u << 10)       /* broadcast: tree up to here, then the chain */

const comm_algorithm *const comm_algorithms[] = {
    &comm_ring, &comm_halving, &comm_direct,        &comm_exchange, &comm_mapped,
    &comm_tree, &comm_chain,   &comm_dissemination, NULL,
};

static int can_map(const comm_request *r, uint64_t bytes, uint64_t from)
{
    int in_place_swap = r->kind == WEFT_ALL_TO_ALL && r->in_place;
    return comm_link_maps(r->link_caps) && bytes >= from && !in_place_swap;
}

/* Partial sums would be rounded on their way. */
static int rounds_on_the_way(const comm_request *r)
{
    return r->redop == WEFT_SUM && (r->dtype == WEFT_BF16 || r->dtype == WEFT_F16);
}

static const comm_algorithm *for_sums(const comm_request *r, uint64_t bytes)
{
    int power_of_two = (r->ranks & (r->ranks - 1)) == 0;
    if (r->ranks <= FEW_RANKS || rounds_on_the_way(r))
        return &comm_direct;
    if (r->kind != WEFT_REDUCE && bytes <= HALVING_MAX && power_of_two)
        return &comm_halving;
    return &comm_ring;
}

const comm_algorithm *comm_select(const comm_request *r)
{
    uint64_t bytes = r->count * weft_dtype_size(r->dtype), spread = bytes * (r->ranks - 1);
    switch (r->kind) {
    case WEFT_BARRIER: return &comm_dissemination;
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE:
        if (can_map(r, bytes, MAPPED_MIN))
            return &comm_mapped;
        return spread <= EXCHANGE_MAX ? &comm_exchange : for_sums(r, bytes);
    case WEFT_REDUCE_SCATTER:
        return can_map(r, bytes, MAPPED_MIN) ? &comm_mapped : for_sums(r, bytes);
    case WEFT_BROADCAST:
        if (can_map(r, bytes, MAPPED_MOVE_MIN))
            return &comm_mapped;
        return bytes <= TREE_MAX || r->ranks == 2 ? &comm_tree : &comm_chain;
    case WEFT_ALL_GATHER:
        if (can_map(r, bytes, MAPPED_MOVE_MIN))
            return &comm_mapped;
        return r->ranks <= FEW_RANKS ? &comm_direct : &comm_ring;
    default: return can_map(r, bytes, MAPPED_MOVE_MIN) ? &comm_mapped : &comm_direct;
    }
}
