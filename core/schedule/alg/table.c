/* schedule/alg/table.c: the algorithms that can be named. A new one is the last line: among equal
 * costs `auto` takes the first (cost.c), and messages list them in this order. */
#include "schedule/algorithm.h"

const sched_algorithm *const sched_algorithms[] = {
    &sched_ring,
    &sched_halving,
    &sched_pairwise,
    &sched_one_shot,
    &sched_mapped,
    &sched_tree,
    &sched_chain,
    &sched_dissemination,
    &sched_hierarchical,
    &sched_doubling,
    &sched_double_tree,
    &sched_bruck,
    NULL,
};
