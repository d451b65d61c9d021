/* check/link/order.c: the k-th send meets the k-th receive.
 *
 * Both ranks send messages of mixed sizes at once, many of them posted ahead. Some sizes repeat, so
 * that two messages that change places are seen in the bytes alone. */
#include "check/link/link.h"

#define MESSAGES 300u
#define AHEAD 32u                /* fewer than the queue's 64 */
#define LIMIT ((uint64_t)262146) /* three stripes of 64 KiB, and a little */

static uint64_t size_of(const check_end *e, uint32_t from, uint64_t k)
{
    uint64_t state = e->run->seed * 1000003 + from * 7919 + k / 2; /* pairs of one size */
    return check_end_size(e, &state, LIMIT);
}

static uint64_t mark_of(uint32_t from, uint32_t k)
{
    return from * 100000ull + k + 1;
}

/* Which message of the peer lies there. */
static void wrong_bytes(const check_end *e, const unsigned char *at, uint32_t k)
{
    const uint64_t bytes = size_of(e, e->peer, k);
    for (uint32_t i = 0; i < MESSAGES; i++)
        if (i != k && size_of(e, e->peer, i) == bytes &&
            check_pattern_holds(at, bytes, mark_of(e->peer, i)))
            check_fail("receive %u of %u at '%s' got the bytes of send %u; the k-th send of a "
                       "connection matches the k-th receive",
                       k + 1, MESSAGES, e->c->name, i + 1);
    check_fail("receive %u of %u at '%s' (%llu bytes) got other bytes than were sent", k + 1,
               MESSAGES, e->c->name, (unsigned long long)bytes);
}

static void both_ways(check_end *e)
{
    unsigned char *out = e->memory, *in = e->memory + AHEAD * LIMIT;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    uint32_t sends = 0, receives = 0;
    uint64_t sent = 0, received = 0, seen = 0;
    while (sent < MESSAGES || received < MESSAGES) {
        for (; receives < MESSAGES && receives < seen + AHEAD; receives++)
            check_end_recv(e, c, in + receives % AHEAD * LIMIT, size_of(e, e->peer, receives));
        for (; sends < MESSAGES && sends < sent + AHEAD; sends++) {
            unsigned char *at = out + sends % AHEAD * LIMIT;
            const uint64_t bytes = size_of(e, e->rank, sends);
            check_pattern(at, bytes, mark_of(e->rank, sends));
            check_end_send(e, c, at, bytes);
        }
        check_end_progress(e, c, &sent, &received);
        if (sent > sends || received > receives)
            check_fail("progress() of '%s' counts more messages than were posted", e->c->name);
        for (; seen < received; seen++) {
            const unsigned char *at = in + seen % AHEAD * LIMIT;
            if (!check_pattern_holds(at, size_of(e, e->peer, seen),
                                     mark_of(e->peer, (uint32_t)seen)))
                wrong_bytes(e, at, (uint32_t)seen);
        }
        check_end_wait(e, "messages of mixed sizes to arrive");
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_order(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 10, .memory = 2 * AHEAD * LIMIT, .run = both_ways};
    check_link_run(r, &job);
}
