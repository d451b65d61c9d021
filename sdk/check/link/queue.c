/* check/link/queue.c: the queues of a connection: what is counted, how much they hold, and what
 * WEFT_BUSY means. */
#include "check/link/link.h"

#include <string.h>

/* --- counts --- */

#define POSTED 48u /* fewer than the queue's 64 */
#define SLOT ((uint64_t)131073)
#define ROUNDS 3u

/* Large and small by turns: a transport of several ways finishes a small one early. */
static uint64_t bytes_of(const check_end *e, uint64_t k)
{
    uint64_t state = e->run->seed + k;
    return k % 4 == 1 ? 0 : check_end_size(e, &state, k % 4 ? 128 : SLOT);
}

static void not_falling(const check_end *e, const char *what, uint64_t before, uint64_t now,
                        uint64_t posted)
{
    if (now < before)
        check_fail("progress() of '%s' counted %llu %s, and then %llu; the counts only rise",
                   e->c->name, (unsigned long long)before, what, (unsigned long long)now);
    if (now > posted)
        check_fail("progress() of '%s' counts %llu %s, and %llu were posted", e->c->name,
                   (unsigned long long)now, what, (unsigned long long)posted);
}

static void one_round(check_end *e, weft_conn *c, uint64_t done)
{
    unsigned char *out = e->memory, *in = e->memory + POSTED * SLOT;
    uint64_t sent = done, received = done, s = done, n = done;
    for (uint32_t i = 0; i < POSTED; i++)
        check_end_recv(e, c, in + i * SLOT, bytes_of(e, done + i));
    for (uint32_t i = 0; i < POSTED; i++) {
        check_pattern(out + i * SLOT, bytes_of(e, done + i), done + i + 1);
        check_end_send(e, c, out + i * SLOT, bytes_of(e, done + i));
    }
    while (sent < done + POSTED || received < done + POSTED) {
        check_end_progress(e, c, &s, &n);
        not_falling(e, "sends", sent, s, done + POSTED);
        not_falling(e, "receives", received, n, done + POSTED);
        for (; sent < s; sent++) /* the memory is the caller's again */
            memset(out + (sent - done) * SLOT, 0x55, bytes_of(e, sent));
        for (; received < n; received++)
            if (!check_pattern_holds(in + (received - done) * SLOT, bytes_of(e, received),
                                     received + 1))
                check_fail("'%s' counts receive %llu of %u, whose bytes are not all there: sends "
                           "and receives are counted in the order in which they were posted, and "
                           "the memory of a counted send may be written",
                           e->c->name, (unsigned long long)(received - done + 1), POSTED);
        check_end_wait(e, "messages of large and small sizes to be counted");
    }
    for (uint32_t i = 0; i < 8; i++) {
        check_end_progress(e, c, &s, &n);
        not_falling(e, "sends", sent, s, done + POSTED);
        not_falling(e, "receives", received, n, done + POSTED);
    }
}

static void counted(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 0);
    for (uint32_t i = 0; i < ROUNDS; i++)
        one_round(e, c, i * (uint64_t)POSTED);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_counts(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 8, .memory = 2 * POSTED * SLOT, .run = counted};
    check_link_run(r, &job);
}

/* --- 64 each way --- */

#define LEAST 64u
#define SMALL 100u

static void post_one(check_end *e, weft_conn *c, uint32_t k, bool out)
{
    unsigned char *at = e->memory + (out ? 0 : LEAST * SMALL) + k * SMALL;
    if (out)
        check_pattern(at, SMALL, k + 1);
    const weft_status st = out ? CHECK_LINK(e, send, c, at, SMALL, e->region, 0)
                               : CHECK_LINK(e, recv, c, at, SMALL, e->region, 0);
    if (st == WEFT_BUSY)
        check_fail("%s() of '%s' returned WEFT_BUSY with %u posted; a queue holds 64 at least, "
                   "each way",
                   out ? "send" : "recv", e->c->name, k);
    check_end_ok(e, st, out ? "send" : "recv");
}

static void holds_64(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 0);
    for (uint32_t k = 0; k < LEAST; k++) {
        post_one(e, c, k, true);
        post_one(e, c, k, false);
    }
    check_end_finish(e, c, LEAST, LEAST);
    for (uint32_t k = 0; k < LEAST; k++)
        if (!check_pattern_holds(e->memory + (LEAST + k) * SMALL, SMALL, k + 1))
            check_fail("of 64 messages that were posted at once, '%s' delivered number %u with "
                       "other bytes",
                       e->c->name, k + 1);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_capacity(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 8, .memory = 2 * LEAST * SMALL, .run = holds_64};
    check_link_run(r, &job);
}

/* --- a full queue --- */

#define MESSAGES 600u

/* Post numbered messages until the queue is full; returns how many it took. */
static uint32_t fill(check_end *e, weft_conn *c, uint64_t *numbers, uint32_t from, bool out)
{
    for (uint32_t k = from; k < MESSAGES; k++) {
        if (out)
            numbers[k] = k + 1;
        const weft_status st = out ? CHECK_LINK(e, send, c, &numbers[k], 8, e->region, 0)
                                   : CHECK_LINK(e, recv, c, &numbers[k], 8, e->region, 0);
        if (st == WEFT_BUSY)
            return k;
        check_end_ok(e, st, out ? "send" : "recv");
    }
    return MESSAGES;
}

static void full_queue(check_end *e)
{
    uint64_t *out = (uint64_t *)(void *)e->memory, *in = out + MESSAGES, seen = 0;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    uint32_t sends = fill(e, c, out, 0, true), receives = 0;
    check_rank_exchange(e->k, NULL, 0, NULL); /* both are full before a receive is posted */
    for (uint64_t sent = 0, received = 0; sent < MESSAGES || received < MESSAGES;) {
        receives = fill(e, c, in, receives, false);
        check_end_progress(e, c, &sent, &received);
        for (; seen < received && seen < MESSAGES; seen++)
            if (in[seen] != seen + 1)
                check_fail("message %llu of '%s' arrived where number %llu was due: a call that "
                           "returned WEFT_BUSY had posted it, and it was posted again",
                           (unsigned long long)in[seen], e->c->name, (unsigned long long)seen + 1);
        if (sent > sends || received > receives)
            check_fail("progress() of '%s' counts %llu sends and %llu receives, and %u and %u were "
                       "accepted; a call that returns WEFT_BUSY posts nothing",
                       e->c->name, (unsigned long long)sent, (unsigned long long)received, sends,
                       receives);
        sends = fill(e, c, out, sends, true);
        check_end_wait(e, "messages to pass through full queues");
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_busy(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 8, .memory = 2 * MESSAGES * sizeof(uint64_t), .run = full_queue};
    check_link_run(r, &job);
}
