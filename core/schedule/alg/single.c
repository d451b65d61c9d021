/* schedule/alg/single.c: a group of one rank. Out is in; in place there is nothing to do. */
#include "schedule/algorithm.h"

static void emit(sched_writer *b)
{
    build_copy(b, out_at(0), in_at(0), b->bytes);
}

const comm_algorithm comm_alone = {
    .name = "alone",
    .kinds = (COMM_ON(WEFT_BARRIER + 1) - 1) & ~COMM_ON(0),
    .emit = emit,
};
