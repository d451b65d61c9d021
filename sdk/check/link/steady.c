/* check/link/steady.c: what messages take and do not give back. */
#include "check/link/link.h"

#include <malloc.h>

#define BYTES 3000u
#define WARM 300u
#define ROUNDS 1500u
#define MAX_HEAP 16384u /* bytes: less than one small block a message */

typedef struct taken {
    check_state state;
    uint64_t blocks, heap;
} taken;

static void take(check_end *e, taken *t)
{
    check_state_take(&t->state);
    t->blocks = e->host.live;
    t->heap = mallinfo2().uordblks;
}

static void grew(const check_end *e, const char *what, uint64_t before, uint64_t now)
{
    check_fail("%u messages each way left '%s' with %llu %s, and %llu before; nothing is taken per "
               "message",
               ROUNDS, e->c->name, (unsigned long long)now, what, (unsigned long long)before);
}

static void steady(check_end *e)
{
    static taken before, after; /* one process a rank */
    uint64_t done = 0, state = e->run->seed;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    check_end_rounds(e, c, WARM, BYTES, &done, "in a row of messages");
    check_rank_exchange(e->k, NULL, 0, NULL);
    take(e, &before);
    for (uint32_t i = 0; i < ROUNDS; i++)
        check_end_rounds(e, c, 1, check_end_size(e, &state, BYTES), &done, "in a row of messages");
    take(e, &after);
    if (after.state.descriptors > before.state.descriptors)
        grew(e, "descriptors", before.state.descriptors, after.state.descriptors);
    if (after.state.threads > before.state.threads)
        grew(e, "threads", before.state.threads, after.state.threads);
    if (after.blocks > before.blocks)
        grew(e, "blocks of the host", before.blocks, after.blocks);
    if (after.heap > before.heap + MAX_HEAP)
        grew(e, "bytes of malloc()", before.heap, after.heap);
    if (after.state.mappings > before.state.mappings + 8)
        grew(e, "mappings", before.state.mappings, after.state.mappings);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_steady(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 9, .memory = 2 * BYTES, .processes = true, .run = steady};
    check_link_run(r, &job);
}
