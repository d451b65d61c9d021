/* check/link/begin.c: connections that begin: before the peer does, and again after they ended. */
#include "check/link/link.h"
#include "check/took.h"

/* --- the peer is late --- */

#define POLLS 40u
#define MAX_LONG 4u /* calls that the machine may have interrupted */

/* This rank begins, and the peer has not called connect(). */
static weft_conn *begin_early(check_end *e, uint32_t channel)
{
    check_timed connect = {.member = "connect"}, ready = {.member = "ready"};
    uint64_t since = check_took_begin();
    weft_conn *c = check_end_begin(e, e->peer, channel);
    check_timed_note(&connect, since);
    for (uint32_t i = 0; i < POLLS; i++) {
        since = check_took_begin();
        const weft_status st = CHECK_LINK(e, ready, c);
        check_timed_note(&ready, since);
        if (st == WEFT_OK)
            check_fail("ready() of '%s' returned WEFT_OK on rank %u before rank %u has called "
                       "connect(); it is WEFT_BUSY until both ends are up",
                       e->c->name, e->rank, e->peer);
        if (st != WEFT_BUSY)
            check_end_ok(e, st, "ready");
        check_end_wait(e, "the peer");
    }
    check_timed_report(e, &connect, 0, "the peer has not called connect()");
    check_timed_report(e, &ready, MAX_LONG, "the peer has not called connect()");
    return c;
}

static void late_peer(check_end *e)
{
    for (uint32_t first = 0; first < 2; first++) {
        uint64_t done = 0;
        weft_conn *c = e->rank == first ? begin_early(e, first) : NULL;
        check_rank_exchange(e->k, NULL, 0, NULL);
        if (!c)
            c = check_end_begin(e, e->peer, first);
        check_end_ready(e, c);
        check_end_rounds(e, c, 1, 1000, &done, "after a late connect()");
        check_rank_exchange(e->k, NULL, 0, NULL);
    }
}

void check_link_begin(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 8, .memory = 2000, .others_only = true, .run = late_peer};
    check_link_run(r, &job);
}

/* --- again --- */

#define TIMES 6u
#define CHANNEL 9u

static void again(check_end *e)
{
    for (uint32_t i = 0; i < TIMES; i++) {
        uint64_t done = 0;
        weft_conn *c = check_end_begin(e, e->peer, CHANNEL);
        for (weft_status st; (st = CHECK_LINK(e, ready, c)) != WEFT_OK;) {
            if (st != WEFT_BUSY)
                check_fail("the pair connected for the %uth time on one channel, and ready() of "
                           "'%s' returned %s: %s",
                           i + 1, e->c->name, check_status(st), e->host.why);
            check_end_wait(e, "ready() of a pair that connects again on the same channel");
        }
        /* another number of messages each time: the counts begin anew */
        check_end_rounds(e, c, 1 + i, 500 + i, &done, "after the pair had connected again");
        check_rank_exchange(e->k, NULL, 0, NULL);
        check_end_down(e, c);
        check_rank_exchange(e->k, NULL, 0, NULL);
    }
}

void check_link_reconnect(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 3, .memory = 2000, .run = again};
    check_link_run(r, &job);
}
