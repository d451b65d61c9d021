/* schedule/alg/single.c: a group of one rank: copies in to out; in place there is nothing to do. */
#include "schedule/algorithm.h"

static void emit(sched_writer *w)
{
    sched_writer_copy(w, sched_out_at(0), sched_in_at(0), w->bytes);
}

const sched_algorithm sched_single = {
    .name = "alone",
    .kinds = (SCHED_ON(WEFT_BARRIER + 1) - 1) & ~SCHED_ON(0),
    .emit = emit,
};
