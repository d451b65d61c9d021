/* comm/dissemination.c: the barrier.
 *
 * Idea: in round k each rank signals the rank 2^k further on and waits for the one 2^k before it.
 * After ceil(log2 n) rounds every rank has heard, through others, from all.
 *
 * Cost: ceil(log2 n) empty messages a rank, one after the other. It never loses among the ways that
 * use messages alone. */
#include "comm/schedule.h"

static void emit(builder *b)
{
    uint32_t n = b->r->ranks, me = b->r->me, heard[32], rounds = 0;
    for (uint64_t far = 1; far < n; far *= 2) {
        uint32_t told = build_signal(b, (uint32_t)((me + far) % n));
        for (uint32_t i = 0; i < rounds; i++)
            build_after(b, told, heard[i]);
        heard[rounds++] = build_wait(b, (uint32_t)((me + n - far) % n));
    }
}

const comm_algorithm comm_dissemination = {
    .name = "dissemination",
    .kinds = COMM_ON(WEFT_BARRIER),
    .emit = emit,
};
