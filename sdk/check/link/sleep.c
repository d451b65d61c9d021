/* check/link/sleep.c: wait(): what ends it, and what it costs while nothing happens. */
#include "base/clock.h"
#include "base/time/pressure.h"
#include "check/link/link.h"

#include <time.h>
#include <unistd.h>

/* --- wake() --- */

#define SLEEP_US 8000000u
#define MAX_MS (SLEEP_US / 1000 / PRESSURE_MAX - 200) /* less than counts of it on any machine */
#define PART ((uint64_t)1 << 20)

static void must_have_been_short(const check_end *e, uint64_t since, const char *when)
{
    if (pressure_ms() - since > MAX_MS)
        check_fail("wake() was called %s, and wait() of '%s' still slept %llu ms of its %u; a call "
                   "of wake() ends the wait, or the next one",
                   when, e->c->name, (unsigned long long)(pressure_ms() - since), SLEEP_US / 1000);
}

static void *wake_later(void *arg)
{
    check_end *e = arg;
    usleep(20000);
    PLUGIN_DO(e->t, wake, e->link);
    return NULL;
}

/* Sleep with a receive posted for which nothing comes. */
static void woken(check_end *e)
{
    pthread_t other;
    uint64_t sent, received;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    if (!e->rank) {
        check_end_recv(e, c, e->memory, 8);
        check_end_progress(e, c, &sent, &received);
        PLUGIN_DO(e->t, wake, e->link);
        uint64_t since = pressure_ms();
        check_end_ok(e, CHECK_LINK(e, wait, e->link, 0, SLEEP_US, 0), "wait");
        must_have_been_short(e, since, "before wait()");
        if (pthread_create(&other, NULL, wake_later, e))
            check_fail("no thread for the check");
        since = pressure_ms();
        check_end_ok(e, CHECK_LINK(e, wait, e->link, 0, SLEEP_US, 0), "wait");
        must_have_been_short(e, since, "by another thread during wait()");
        pthread_join(other, NULL);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_wake(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 14, .memory = 8, .run = woken};
    check_link_run(r, &job);
}

/* --- a message --- */

#define TIMES 8u

/* Rank 1 sends when rank 0 has slept for a while, and rank 0 sleeps once more only if nothing has
 * come: what is under way when it falls asleep counts, too. */
static void arrives(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 0);
    for (uint64_t i = 1; i <= TIMES; i++) {
        uint64_t sent = 0, received = 0, state = i;
        const uint64_t bytes = check_end_size(e, &state, PART);
        check_rank_exchange(e->k, NULL, 0, NULL);
        if (e->rank) {
            usleep(i % 2 ? 20000 : 0);
            check_end_send(e, c, e->memory, bytes);
            check_end_finish(e, c, i, 0);
            continue;
        }
        check_end_recv(e, c, e->memory, bytes);
        const uint64_t since = pressure_ms();
        for (check_end_progress(e, c, &sent, &received); received < i;) {
            check_end_ok(e, CHECK_LINK(e, wait, e->link, 0, SLEEP_US, 0), "wait");
            check_end_progress(e, c, &sent, &received);
        }
        if (pressure_ms() - since > MAX_MS)
            check_fail("the peer sent %llu bytes, and wait() of '%s' slept on: they were there "
                       "after %llu ms; wait() ends when a connection with posted work may make "
                       "progress",
                       (unsigned long long)bytes, e->c->name,
                       (unsigned long long)(pressure_ms() - since));
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_arrival(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 14, .memory = PART, .others_only = true, .run = arrives};
    check_link_run(r, &job);
}

/* --- an idle wait --- */

#define IDLE_MS 500u
#define MAX_USED_MS 35.0 /* a busy machine gives little to a wait that polls, too */

static uint64_t processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void idle(check_end *e)
{
    uint64_t sent, received;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    check_end_recv(e, c, e->memory, 8);
    check_end_progress(e, c, &sent, &received);
    check_rank_exchange(e->k, NULL, 0, NULL);
    const uint64_t since = clock_ms(), before = processor_ns();
    while (clock_ms() - since < IDLE_MS) {
        check_end_ok(e, CHECK_LINK(e, wait, e->link, 0, 50000, 0), "wait");
        check_end_progress(e, c, &sent, &received);
    }
    const double used = (double)(processor_ns() - before) / 1e6;
    if (used > MAX_USED_MS)
        check_fail("nothing happened for %u ms, and wait() of '%s' used the processor for %.0f ms; "
                   "it sleeps until there is something to do",
                   IDLE_MS, e->c->name, used);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_idle(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 8, .memory = 8, .others_only = true, .processes = true, .run = idle};
    check_link_run(r, &job);
}
