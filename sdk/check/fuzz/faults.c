/* check/fuzz/faults.c: faults that come together: allocations and threads that are refused, an
 * abort from another thread, and a peer that dies.
 *
 * Short lives of a link, each with other faults. A call may fail; it returns, and what it took is
 * given back. A hang is found by the deadline, which names the call. */
#include "base/clock.h"
#include "base/time/pressure.h"
#include "check/fuzz/fuzz.h"
#include "check/hook.h"
#include "check/link/link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define LIVES 16u
#define POLL_MS 25u
#define MESSAGE 2000u

static _Atomic bool no_threads;

static int refuse_threads(pthread_t *out, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    return atomic_load(&no_threads) ? EAGAIN : pthread_create(out, a, fn, arg);
}

static const check_hooks hooks[] = {{"pthread_create", (void (*)(void))refuse_threads}, {0}};

static void *abort_soon(void *arg)
{
    check_end *e = arg;
    usleep(3000);
    PLUGIN_DO(e->t, abort, e->link);
    return NULL;
}

/* Until the call fails, is over, or some time has passed. */
static weft_status poll_ready(check_end *e, weft_conn *c)
{
    weft_status st = WEFT_BUSY;
    for (const uint64_t until = pressure_ms() + POLL_MS;
         st == WEFT_BUSY && pressure_ms() < until;) {
        st = CHECK_LINK(e, ready, c);
        if (st == WEFT_BUSY)
            (void)!CHECK_LINK(e, wait, e->link, 0, 1000, 0);
    }
    return st;
}

static void talk(check_end *e, weft_conn *c)
{
    weft_status st = poll_ready(e, c);
    for (uint32_t i = 0; st == WEFT_OK && i < 4; i++) {
        st = CHECK_LINK(e, recv, c, e->memory + MESSAGE, MESSAGE, NULL, 0);
        if (st == WEFT_OK)
            st = CHECK_LINK(e, send, c, e->memory, MESSAGE, NULL, 0);
    }
    if (st == WEFT_OK)
        (void)!check_end_fate(e, c, POLL_MS / 2);
}

static void live(check_end *e, uint32_t life)
{
    pthread_t other;
    weft_conn *c = NULL;
    char id[40];
    const bool aborts = life / 8 % 2, dies = life + 1 == LIVES && e->rank == 1;
    e->link = NULL;
    e->host.fail_at = 1 + life % 8;
    atomic_store(&no_threads, life % 3 == 1);
    snprintf(id, sizeof id, "%.28s-%u", ((const check_link_of *)e->k->arg)->id, life);
    weft_status made = check_end_create(e, id);
    if (made == WEFT_OK)
        made = check_end_address(e);
    if (made != WEFT_OK)
        e->address_bytes[e->rank] = 0; /* it has none */
    check_end_tell(e);
    if (aborts && e->link && pthread_create(&other, NULL, abort_soon, e))
        check_fail("no thread for the check");
    const weft_conn_args args = {
        sizeof args, 0, e->peer, 0, e->address[e->peer], e->address_bytes[e->peer]};
    if (made == WEFT_OK && e->address_bytes[e->peer] &&
        CHECK_LINK(e, connect, e->link, &args, &c) == WEFT_OK) {
        if (dies)
            kill(getpid(), SIGKILL);
        talk(e, c);
    }
    if (dies)
        kill(getpid(), SIGKILL);
    if (aborts && e->link)
        pthread_join(other, NULL);
    e->host.fail_at = 0;
    if (c)
        PLUGIN_DO(e->t, disconnect, c);
    PLUGIN_DO(e->t, destroy, e->link);
    e->link = NULL;
    check_host_clear(&e->host);
}

static void faults(check_end *e)
{
    check_hook_object(check_manifest(e->run), hooks);
    const uint64_t before = e->host.live;
    for (uint32_t life = 0; life < LIVES; life++) {
        if (life + 1 == LIVES)
            check_rank_dies(e->k, 1);
        live(e, life);
        if (e->host.live != before)
            check_fail("after a life with faults (allocation %u refused%s%s), destroy() of '%s' "
                       "left %llu blocks of the host; before it were %llu",
                       1 + life % 8, life % 3 == 1 ? ", no threads" : "",
                       life / 8 % 2 ? ", abort() from another thread" : "", e->c->name,
                       (unsigned long long)e->host.live, (unsigned long long)before);
    }
}

void check_fuzz_faults(check_run *r)
{
    const check_link_job job = {.ranks = 2,
                                .seconds = 9,
                                .memory = 2 * MESSAGE,
                                .others_only = true,
                                .processes = true,
                                .not_up = true,
                                .run = faults};
    check_link_run(r, &job);
}
