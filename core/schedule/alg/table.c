/* schedule/alg/table.c: the algorithms that can be named. A new one is a line here. */
#include "schedule/algorithm.h"

const comm_algorithm *const comm_algorithms[] = {
    &comm_ring,     &comm_halving,       &comm_direct,
    &comm_exchange, &comm_mapped,        &comm_tree,
    &comm_chain,    &comm_dissemination, &comm_hierarchical,
    &comm_doubling, &comm_double_tree,   &comm_bruck,
    NULL,
};
