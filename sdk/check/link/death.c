/* check/link/death.c: peers that die, and links that are aborted. */
#include "check/link/link.h"

#include <signal.h>
#include <unistd.h>

#define FATE_MS 6000u

#define PART ((uint64_t)1 << 20)
#define POSTED 20u

typedef struct death { /* of rank 1 */
    bool sends;        /* it has long messages under way */
    bool is_sent_to;   /* rank 0 sends, else it receives */
    bool leaves;       /* by _exit(), without disconnect() */
} death;

static void killed(check_end *e)
{
    const death *d = e->arg;
    uint64_t sent, received;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    for (uint32_t i = 0; i < POSTED && !e->rank; i++) {
        if (d->is_sent_to)
            check_end_send(e, c, e->memory, PART);
        else
            check_end_recv(e, c, e->memory, PART);
    }
    for (uint32_t i = 0; i < POSTED - 4 && e->rank && d->sends; i++)
        check_end_send(e, c, e->memory, PART);
    check_end_progress(e, c, &sent, &received);
    if (e->rank == 1)
        check_rank_dies(e->k, 1);
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (e->rank == 1 && d->leaves)
        _exit(0);
    if (e->rank == 1)
        kill(getpid(), SIGKILL);
    const weft_status st = check_end_fate(e, c, FATE_MS);
    if (st == WEFT_OK)
        check_fail("the process of the peer has ended, and progress() of '%s' still returns "
                   "WEFT_OK after %u seconds; a peer that is gone is WEFT_PEER",
                   e->c->name, FATE_MS / 1000);
    if (st != WEFT_PEER)
        check_fail("the process of the peer has ended, and a call of '%s' returned %s instead of "
                   "WEFT_PEER: %s",
                   e->c->name, check_status(st), e->host.why);
    if (!e->host.why[0])
        check_fail("the process of the peer has ended, and '%s' returned WEFT_PEER without a "
                   "sentence",
                   e->c->name);
}

void check_link_death(check_run *r)
{
    static const death deaths[] = {{0}, {.is_sent_to = true}, {.sends = true}, {.leaves = true}};
    for (uint32_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        const check_link_job job = {.ranks = 2,
                                    .seconds = 9,
                                    .memory = PART,
                                    .others_only = true,
                                    .processes = true,
                                    .run = killed,
                                    .arg = (void *)(uintptr_t)&deaths[i]};
        check_link_run(r, &job);
    }
}

/* --- abort() --- */

#define ABORT_MS 2500u

static void *abort_later(void *arg)
{
    check_end *e = arg;
    usleep(20000);
    PLUGIN_DO(e->t, abort, e->link);
    return NULL;
}

/* Every call that needs a peer fails from now on. */
static void fails_for_ever(check_end *e, weft_conn *c)
{
    uint64_t sent, received;
    const struct {
        const char *member;
        weft_status st;
    } calls[] = {
        {"send", CHECK_LINK(e, send, c, e->memory, 8, e->region, 0)},
        {"recv", CHECK_LINK(e, recv, c, e->memory, 8, e->region, 0)},
        {"progress", CHECK_LINK(e, progress, c, 0, &sent, &received)},
        {"ready", CHECK_LINK(e, ready, c)},
        {"wait", CHECK_LINK(e, wait, e->link, 0, 1000, 0)},
    };
    for (uint32_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].st != WEFT_PEER)
            check_fail("after abort() %s() of '%s' returned %s; every call that needs a peer is "
                       "WEFT_PEER",
                       calls[i].member, e->c->name, check_status(calls[i].st));
}

/* Rank 0 aborts while both wait for a message. */
static void aborted(check_end *e)
{
    pthread_t other;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    check_end_recv(e, c, e->memory, 8);
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (!e->rank && pthread_create(&other, NULL, abort_later, e))
        check_fail("no thread for the check");
    const weft_status st = check_end_fate(e, c, ABORT_MS);
    if (st != WEFT_PEER)
        check_fail("rank 0 called abort(), and calls of '%s' on %s end return %s after %u seconds; "
                   "both ends notice, with WEFT_PEER",
                   e->c->name, e->rank ? "the other" : "its own", check_status(st),
                   ABORT_MS / 1000);
    if (!e->rank) {
        pthread_join(other, NULL);
        fails_for_ever(e, c);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_abort(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 8, .memory = 8, .others_only = true, .run = aborted};
    check_link_run(r, &job);
}
