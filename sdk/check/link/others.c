/* check/link/others.c: three ranks, of which one is stopped or dies: the other two go on. */
#include "check/link/link.h"
#include "check/took.h"

#include <signal.h>
#include <unistd.h>

#define ROUNDS 40u
#define BYTES 1000u

/* --- a rank that is stopped --- */

#define CONNS 4u
#define STOPPED "the process of the peer was stopped"

typedef struct calls {
    check_timed connect, ready, progress, wake, wait, disconnect;
} calls;

#define TIMED(t, call)                                                                             \
    do {                                                                                           \
        const uint64_t since_ = check_took_begin();                                                \
        call;                                                                                      \
        check_timed_note(t, since_);                                                               \
    } while (0)

/* Begin connections to the stopped rank, poll them, and end all that lead to it. */
static void use_stopped(check_end *e, weft_conn *const *up, calls *t)
{
    weft_conn *fresh[CONNS];
    uint64_t sent, received;
    for (uint32_t i = 0; i < CONNS; i++)
        TIMED(&t->connect, fresh[i] = check_end_begin(e, 1, CONNS + i));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        weft_status st;
        TIMED(&t->ready, st = CHECK_LINK(e, ready, fresh[i % CONNS]));
        if (st != WEFT_BUSY)
            check_fail("a rank is stopped, and ready() of a new connection with it returned %s in "
                       "'%s'; it is WEFT_BUSY",
                       check_status(st), e->c->name);
        TIMED(&t->progress, check_end_progress(e, up[i % CONNS], &sent, &received));
        TIMED(&t->wake, PLUGIN_DO(e->t, wake, e->link));
        TIMED(&t->wait, check_end_ok(e, CHECK_LINK(e, wait, e->link, 0, 0, 0), "wait"));
    }
    for (uint32_t i = 0; i < CONNS; i++)
        TIMED(&t->disconnect, check_end_down(e, fresh[i]));
    for (uint32_t i = 0; i < CONNS; i++)
        TIMED(&t->disconnect, check_end_down(e, up[i]));
}

static void beside_a_stopped(check_end *e, weft_conn *other)
{
    uint64_t done = 0;
    e->peer = 2 - e->rank;
    check_end_rounds(e, other, ROUNDS, BYTES, &done, "while a third rank is stopped");
}

static void stopped(check_end *e)
{
    calls t = {{.member = "connect"}, {.member = "ready"}, {.member = "progress"},
               {.member = "wake"},    {.member = "wait"},  {.member = "disconnect"}};
    weft_conn *up[CONNS], *other = NULL;
    for (uint32_t i = 0; i < CONNS && e->rank < 2; i++)
        up[i] = check_end_connect(e, 1 - e->rank, i);
    if (e->rank != 1)
        other = check_end_connect(e, 2 - e->rank, 0);
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (e->rank == 1) {
        raise(SIGSTOP);
        _exit(0);
    }
    check_rank_dies(e->k, 1); /* later; barriers do not wait for it */
    beside_a_stopped(e, other);
    if (!e->rank) {
        use_stopped(e, up, &t);
        check_timed_report(e, &t.connect, CONNS / 2, STOPPED);
        check_timed_report(e, &t.ready, ROUNDS / 4, STOPPED);
        check_timed_report(e, &t.progress, ROUNDS / 4, STOPPED);
        check_timed_report(e, &t.wake, ROUNDS / 4, STOPPED);
        check_timed_report(e, &t.wait, ROUNDS / 4, STOPPED);
        check_timed_report(e, &t.disconnect, CONNS, STOPPED);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (!e->rank)
        kill(check_rank_process(e->k, 1), SIGKILL);
}

void check_link_stopped(check_run *r)
{
    const check_link_job job = {.ranks = 3,
                                .seconds = 8,
                                .memory = 2 * BYTES,
                                .others_only = true,
                                .processes = true,
                                .run = stopped};
    check_link_run(r, &job);
}

/* --- a rank that dies --- */

#define FATE_MS 5000u

static void outlive(check_end *e)
{
    weft_conn *to[3] = {NULL};
    for (uint32_t i = 0; i < 3; i++)
        if (i != e->rank)
            to[i] = check_end_begin(e, i, 0);
    for (uint32_t i = 0; i < 3; i++)
        if (to[i])
            check_end_ready(e, to[i]);
    if (e->rank == 2)
        check_rank_dies(e->k, 2);
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (e->rank == 2)
        kill(getpid(), SIGKILL);
    e->peer = 1 - e->rank;
    uint64_t done = 0;
    check_end_recv(e, to[2], e->memory + 2 * BYTES, BYTES);
    const weft_status st = check_end_fate(e, to[2], FATE_MS);
    if (st != WEFT_PEER)
        check_fail("rank 2 was killed, and calls of '%s' for a connection with it return %s after "
                   "%u seconds",
                   e->c->name, check_status(st), FATE_MS / 1000);
    check_host_clear(&e->host);
    check_end_rounds(e, to[e->peer], ROUNDS, BYTES, &done, "after a third rank had died,");
    weft_conn *fresh = check_end_connect(e, e->peer, 7);
    done = 0;
    check_end_rounds(e, fresh, 2, BYTES, &done,
                     "on a connection that began after a third rank had "
                     "died,");
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_outlive(check_run *r)
{
    const check_link_job job = {.ranks = 3,
                                .seconds = 9,
                                .memory = 3 * BYTES,
                                .others_only = true,
                                .processes = true,
                                .run = outlive};
    check_link_run(r, &job);
}
