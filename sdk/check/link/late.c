/* check/link/late.c: sends long before their receives, and sends whose receives have another
 * length. */
#include "base/clock.h"
#include "base/time/pressure.h"
#include "check/link/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- long before --- */

#define SENDS 24u
#define PART ((uint64_t)512 << 10) /* all together more than the buffers of sockets */
#define APART_MS 350u

static uint64_t bytes_of(const check_end *e, uint64_t k)
{
    uint64_t state = e->run->seed + k;
    return k % 2 ? PART : check_end_size(e, &state, PART);
}

static void long_before(check_end *e)
{
    uint64_t sent = 0, received = 0;
    weft_conn *c = check_end_connect(e, e->peer, 0);
    check_pattern(e->memory, PART, 1);
    for (uint32_t i = 0; i < SENDS; i++)
        check_end_send(e, c, e->memory, bytes_of(e, i));
    for (const uint64_t until = pressure_ms() + APART_MS; pressure_ms() < until;) {
        const weft_status st = CHECK_LINK(e, progress, c, 0, &sent, &received);
        if (st != WEFT_OK)
            check_fail("%u sends of '%s' wait for receives that the peer has not posted, and "
                       "progress() returned %s; a send may stay pending indefinitely: %s",
                       SENDS, e->c->name, check_status(st), e->host.why);
        if (received)
            check_fail("progress() of '%s' counts a receive, and none was posted", e->c->name);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
    for (uint32_t i = 0; i < SENDS; i++) {
        memset(e->memory + PART, 0, PART);
        check_end_recv(e, c, e->memory + PART, bytes_of(e, i));
        while (received < i + 1) {
            check_end_progress(e, c, &sent, &received);
            check_end_wait(e, "messages that were sent long before their receives");
        }
        if (!check_pattern_holds(e->memory + PART, bytes_of(e, i), 1))
            check_fail("'%s' delivered other bytes of a message that was sent long before its "
                       "receive",
                       e->c->name);
    }
    check_end_finish(e, c, SENDS, SENDS);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_late(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 8, .memory = 2 * PART, .run = long_before};
    check_link_run(r, &job);
}

/* --- another length --- */

#define LIMIT ((uint64_t)900000)
#define FATE_MS 4000u

/* Short or long, by much or by a byte, and which end posts first. */
static const uint64_t cases[][2] = {
    {100, 200}, {200, 100}, {0, 8},     {8, 0},     {70001, 70000},    {70000, 70001},
    {3, LIMIT}, {LIMIT, 3}, {0, LIMIT}, {LIMIT, 0}, {LIMIT, LIMIT - 1}};
#define CASES (sizeof cases / sizeof *cases)

typedef struct seen { /* shared: what the two ends know */
    char why[2][1024];
    _Atomic uint32_t over[CASES]; /* the receiver has failed */
} seen;

static bool names(const char *text, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    const size_t n = strlen(digits);
    for (const char *at = text; (at = strstr(at, digits)); at++)
        if ((at == text || at[-1] < '0' || at[-1] > '9') && (at[n] < '0' || at[n] > '9'))
            return true;
    return false;
}

/* Until this end fails, or, where it only sends, the other end has failed for a while. */
static void wait_for_failure(check_end *e, weft_conn *c, uint32_t k, bool receives)
{
    seen *s = e->arg;
    const uint64_t until = pressure_ms() + FATE_MS;
    while (pressure_ms() < until) {
        uint64_t sent = 0, received = 0;
        const weft_status st = CHECK_LINK(e, progress, c, 0, &sent, &received);
        if (st != WEFT_OK)
            return;
        if (received)
            check_fail("rank 0 sent %llu bytes, rank 1 posted a receive of %llu, and '%s' counts "
                       "it as complete; unequal lengths are a failure that names both",
                       (unsigned long long)cases[k][0], (unsigned long long)cases[k][1],
                       e->c->name);
        if (!receives && atomic_load(&s->over[k])) {
            (void)!check_end_fate(e, c, 50);
            return;
        }
        if (CHECK_LINK(e, wait, e->link, 0, 1000, 0) != WEFT_OK)
            return;
    }
    if (receives)
        check_fail("rank 0 sent %llu bytes, rank 1 posted a receive of %llu, and '%s' has not "
                   "failed after %u seconds",
                   (unsigned long long)cases[k][0], (unsigned long long)cases[k][1], e->c->name,
                   FATE_MS / 1000);
}

static void unequal(check_end *e)
{
    seen *s = e->arg;
    const uint32_t receiver = e->ranks - 1;
    for (uint32_t k = 0; k < CASES; k++) {
        weft_conn *c = check_end_connect(e, e->peer, k);
        check_host_clear(&e->host);
        if (e->rank == receiver)
            check_end_recv(e, c, e->memory, cases[k][1]);
        if (!e->rank)
            check_end_send(e, c, e->memory + LIMIT, cases[k][0]);
        wait_for_failure(e, c, k, e->rank == receiver);
        snprintf(s->why[e->rank], sizeof s->why[0], "%s", e->host.why);
        if (e->rank == receiver)
            atomic_store(&s->over[k], 1);
        check_rank_exchange(e->k, NULL, 0, NULL);
        bool named = false;
        for (uint32_t i = 0; i < e->ranks; i++)
            named = named || (names(s->why[i], cases[k][0]) && names(s->why[i], cases[k][1]));
        if (!named)
            check_fail("rank 0 sent %llu bytes, rank 1 posted a receive of %llu, and the failure "
                       "of '%s' does not name both numbers: \"%s\"",
                       (unsigned long long)cases[k][0], (unsigned long long)cases[k][1], e->c->name,
                       s->why[receiver][0] ? s->why[receiver] : s->why[0]);
        check_rank_exchange(e->k, NULL, 0, NULL);
        check_end_down(e, c);
    }
}

void check_link_unequal(check_run *r)
{
    const check_link_job job = {.ranks = 2,
                                .seconds = 8,
                                .memory = 2 * LIMIT,
                                .run = unequal,
                                .arg = check_shared(sizeof(seen))};
    check_link_run(r, &job);
}
