/* check/link/death.c: peers that die. */
#include "check/link/link.h"

#include <signal.h>
#include <unistd.h>

#define FATE_MS 10000u

/* Rank 1 is killed while rank 0 waits for a message of it. */
static void killed(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 0);
    if (!e->rank)
        check_end_recv(e, c, e->memory, 4096);
    if (e->rank == 1)
        check_rank_dies(e->k, 1);
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (e->rank == 1)
        kill(getpid(), SIGKILL);
    const weft_status st = check_end_fate(e, c, FATE_MS);
    if (st == WEFT_OK)
        check_fail("the process of the peer was killed, and progress() of '%s' still returns "
                   "WEFT_OK after %u seconds; a peer that is gone is WEFT_PEER",
                   e->c->name, FATE_MS / 1000);
    if (st != WEFT_PEER)
        check_fail("the process of the peer was killed, and a call of '%s' returned %s instead of "
                   "WEFT_PEER: %s",
                   e->c->name, check_status(st), e->host.why);
    if (!e->host.why[0])
        check_fail("the process of the peer was killed, and '%s' returned WEFT_PEER without a "
                   "sentence",
                   e->c->name);
}

void check_link_death(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 15, .memory = 4096, .others_only = true, .run = killed};
    check_link_run(r, &job);
}
