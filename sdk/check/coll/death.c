/* check/coll/death.c: communicators whose ranks die, and those that are aborted. */
#include "base/time/pressure.h"
#include "check/coll/coll.h"
#include "check/took.h"

#include <signal.h>
#include <unistd.h>

#define FATE_MS 3000u

static float number = 1, result;
static const weft_coll_call sum = {.kind = WEFT_ALL_REDUCE,
                                   .redop = WEFT_SUM,
                                   .dtype = WEFT_F32,
                                   .in = &number,
                                   .out = &result,
                                   .count = 1};

/* The last rank dies; the others have begun an operation. */
static void lose_the_last(check_party *p)
{
    const uint32_t last = p->ranks - 1;
    check_party_works(p, "with all ranks there,");
    if (p->rank == last)
        check_rank_dies(p->k, last);
    check_rank_exchange(p->k, NULL, 0, NULL);
    if (p->rank == last)
        kill(getpid(), SIGKILL);
    check_party_start(p, &sum, 1);
}

/* --- health() --- */

#define CALLS 2000u
#define MAX_US 10.0

static void is_cheap(check_party *p)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t round = 0; round < 5; round++) { /* the machine may interrupt some */
        const uint64_t since = check_took_begin();
        for (uint32_t i = 0; i < CALLS / 5; i++)
            check_party_ok(p, CHECK_COLL(p, health, p->comm), "health");
        const uint64_t took = check_took_ns(since);
        least = took < least ? took : least;
    }
    const double us = (double)least / 1e3 / (CALLS / 5);
    if (us > MAX_US)
        check_fail("health() of '%s' takes %.1f us; it is polled, and takes less than %.0f",
                   p->c->name, us, MAX_US);
}

static void healthy(check_party *p)
{
    is_cheap(p);
    lose_the_last(p);
    weft_status st = WEFT_OK;
    for (const uint64_t until = pressure_ms() + FATE_MS; st == WEFT_OK && pressure_ms() < until;) {
        uint64_t done;
        (void)!CHECK_COLL(p, test, p->comm, 0, &done);
        st = CHECK_COLL(p, health, p->comm);
        check_party_wait(p, "health() to report a rank that died");
    }
    if (st != WEFT_PEER && st != WEFT_IO)
        check_fail("a rank was killed with an operation in flight, and health() of '%s' returns %s "
                   "after %u seconds; it reports what has gone wrong, WEFT_PEER or WEFT_IO",
                   p->c->name, check_status(st), FATE_MS / 1000);
    if (!p->host.why[0])
        check_fail("health() of '%s' returned %s without a sentence", p->c->name, check_status(st));
    PLUGIN_DO(p->t, abort, p->comm);
}

void check_coll_health(check_run *r)
{
    const check_coll_job job = {.ranks = 3, .seconds = 6, .run = healthy};
    check_coll_run(r, &job);
}

/* --- abort() --- */

static void *abort_twice(void *arg)
{
    check_party *p = arg;
    usleep(10000);
    PLUGIN_DO(p->t, abort, p->comm);
    PLUGIN_DO(p->t, abort, p->comm);
    return NULL;
}

/* Another thread aborts while this one polls an operation that the last rank never begins. */
static void aborted(check_party *p)
{
    pthread_t other;
    weft_status st = WEFT_OK;
    uint64_t done = 0;
    if (p->rank + 1 < p->ranks) {
        check_party_start(p, &sum, 1);
        if (pthread_create(&other, NULL, abort_twice, p))
            check_fail("no thread for the check");
        for (const uint64_t until = pressure_ms() + FATE_MS;
             st == WEFT_OK && pressure_ms() < until;)
            st = CHECK_COLL(p, test, p->comm, 0, &done);
        pthread_join(other, NULL);
        if (st == WEFT_OK)
            check_fail("abort() of '%s' was called while test() polled an operation, and test() "
                       "returns WEFT_OK after %u seconds",
                       p->c->name, FATE_MS / 1000);
    } else {
        usleep(20000);
        PLUGIN_DO(p->t, abort, p->comm);
    }
    check_rank_exchange(p->k, NULL, 0, NULL);
}

void check_coll_abort(check_run *r)
{
    const check_coll_job job = {.ranks = 3, .seconds = 6, .run = aborted};
    check_coll_run(r, &job);
}

/* --- close() --- */

static void closed(check_party *p)
{
    lose_the_last(p);
    for (const uint64_t until = pressure_ms() + 50; pressure_ms() < until;) {
        uint64_t done;
        (void)!CHECK_COLL(p, test, p->comm, 0, &done);
    }
    PLUGIN_DO(p->t, abort, p->comm);
    check_party_down(p); /* a hang is found by the deadline, which names the call */
}

void check_coll_close(check_run *r)
{
    const check_coll_job job = {.ranks = 3, .seconds = 4, .run = closed};
    check_coll_run(r, &job);
}
