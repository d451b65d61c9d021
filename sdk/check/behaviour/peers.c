/* check/behaviour/peers.c: calls that other threads and processes disturb. */
#include "check/behaviour/behaviour.h"
#include "check/link/link.h"
#include "check/took.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* --- a stopped peer --- */

#define ROUNDS 300u
#define MAX_LONG 10u /* calls that the machine may have interrupted */
#define MESSAGE 65536u
#define STOPPED "the process of the peer was stopped"

/* Post as much as the queue takes, and poll. */
static void poll_stopped(check_end *e, weft_conn *c)
{
    check_timed send = {.member = "send"}, progress = {.member = "progress"};
    check_end_recv(e, c, e->memory + MESSAGE, MESSAGE);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t sent, received, since = check_took_begin();
        const weft_status st = CHECK_LINK(e, send, c, e->memory, MESSAGE, e->region, 0);
        check_timed_note(&send, since);
        if (st != WEFT_BUSY)
            check_end_ok(e, st, "send");
        since = check_took_begin();
        check_end_progress(e, c, &sent, &received);
        check_timed_note(&progress, since);
    }
    check_timed_report(e, &send, MAX_LONG, STOPPED);
    check_timed_report(e, &progress, MAX_LONG, STOPPED);
}

static void stopped(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 0);
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (e->rank == 1) {
        raise(SIGSTOP);
        _exit(0); /* as it is woken: the connection may be full */
    }
    poll_stopped(e, c);
    check_rank_dies(e->k, 1);
    kill(check_rank_process(e->k, 1), SIGKILL);
}

void check_behaviour_blocks(check_run *r)
{
    const check_link_job job = {.ranks = 2,
                                .seconds = 12,
                                .memory = 2 * MESSAGE,
                                .others_only = true,
                                .processes = true,
                                .run = stopped};
    check_link_run(r, &job);
}

/* --- eight threads --- */

#define THREADS 8u
#define TIMES 300u

typedef struct crowd {
    check_end *e;
    _Atomic uint32_t waiting; /* threads that have begun */
} crowd;

/* All threads begin at once. */
static void gather(crowd *w)
{
    atomic_fetch_add(&w->waiting, 1);
    while (atomic_load(&w->waiting) < THREADS)
        ;
}

static void *wake_often(void *arg)
{
    crowd *w = arg;
    gather(w);
    for (uint32_t i = 0; i < TIMES; i++)
        PLUGIN_DO(w->e->t, wake, w->e->link);
    return NULL;
}

static void *abort_once(void *arg)
{
    crowd *w = arg;
    gather(w);
    PLUGIN_DO(w->e->t, abort, w->e->link);
    return NULL;
}

static void start_all(pthread_t t[THREADS], void *(*fn)(void *), crowd *w)
{
    for (uint32_t i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, fn, w))
            check_fail("no thread for the check");
}

static void join_all(pthread_t t[THREADS])
{
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
}

static void wake_from_all(check_end *e, weft_conn *c)
{
    pthread_t t[THREADS];
    crowd w = {.e = e};
    start_all(t, wake_often, &w);
    for (uint32_t i = 0; i < 50; i++) { /* messages go on meanwhile */
        check_pattern(e->memory, 1000, i);
        check_end_recv(e, c, e->memory + MESSAGE, 1000);
        check_end_send(e, c, e->memory, 1000);
        check_end_finish(e, c, i + 1, i + 1);
        if (!check_pattern_holds(e->memory + MESSAGE, 1000, i))
            check_fail("while eight threads call wake(), '%s' delivered other bytes than were sent",
                       e->c->name);
    }
    join_all(t);
}

static void abort_from_all(check_end *e, weft_conn *c)
{
    pthread_t t[THREADS];
    crowd w = {.e = e};
    start_all(t, abort_once, &w);
    join_all(t);
    const weft_status st = check_end_fate(e, c, 2000);
    if (st != WEFT_PEER && e->ranks > 1)
        check_fail("after abort() from eight threads a call of '%s' returned %s instead of "
                   "WEFT_PEER",
                   e->c->name, check_status(st));
}

static void call_from_threads(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 0);
    wake_from_all(e, c);
    check_rank_exchange(e->k, NULL, 0, NULL);
    abort_from_all(e, c);
}

void check_behaviour_any(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 12, .memory = 2 * MESSAGE, .run = call_from_threads};
    check_link_run(r, &job);
}
