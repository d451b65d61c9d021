/* schedule/alg/single.c: a group of one rank: copies in to out; in place there is nothing to do. */
#include "schedule/algorithm.h"

static void emit(sched_writer *b)
{
    sched_writer_copy(b, sched_out_at(0), sched_in_at(0), b->bytes);
}

const sched_algorithm sched_single = {
    .name = "alone",
    .kinds = (SCHED_ON(WEFT_BARRIER + 1) - 1) & ~SCHED_ON(0),
    .emit = emit,
};
