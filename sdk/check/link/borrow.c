/* check/link/borrow.c: the memory of a message is untouched before the post and after completion.
 *
 * Pages that the transport may not touch have no access. A fault there is the plugin's; where the
 * system touches them for it, the call fails. */
#define _GNU_SOURCE
#include "check/link/link.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define PART ((uint64_t)3 * 4096)
#define ROUNDS 24u

static _Thread_local const check_end *here;
static _Thread_local uint64_t watched; /* bytes of here->memory */
static _Thread_local const char *rule;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    const unsigned char *at = info->si_addr;
    if (here && at >= here->memory && at < here->memory + watched)
        check_fail("'%s' %s", here->c->name, rule);
    signal(number, SIG_DFL);
}

static void watch(const check_end *e, uint64_t bytes, const char *text)
{
    here = e;
    watched = bytes;
    rule = text;
    sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, NULL);
}

static void allow(void *at, uint64_t bytes, int access)
{
    if (mprotect(at, bytes, access))
        check_fail("no access rights can be set for the memory of a message");
}

/* Two pairs of buffers by turns: while one is used, the other has no access. */
static void lent(check_end *e)
{
    weft_conn *c = check_end_connect(e, e->peer, 0);
    watch(e, 4 * PART,
          "touched the memory of a message that progress() had counted, or wrote to memory that is "
          "being sent; it is borrowed from the post until it is counted");
    allow(e->memory, 4 * PART, PROT_NONE);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        unsigned char *out = e->memory + i % 2 * 2 * PART, *in = out + PART;
        allow(out, 2 * PART, PROT_READ | PROT_WRITE);
        check_pattern(out, PART, i + 1);
        allow(out, PART, PROT_READ);
        check_end_recv(e, c, in, PART);
        check_end_send(e, c, out, PART);
        check_end_finish(e, c, i + 1, i + 1);
        if (!check_pattern_holds(in, PART, i + 1))
            check_fail("'%s' delivered other bytes than were sent", e->c->name);
        allow(out, 2 * PART, PROT_NONE);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
    allow(e->memory, 4 * PART, PROT_READ | PROT_WRITE);
}

void check_link_borrow(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 8, .memory = 4 * PART, .run = lent};
    check_link_run(r, &job);
}

/* --- after disconnect() --- */

#define LEFT ((uint64_t)2 * 4096)   /* of a receive that is left */
#define LONG ((uint64_t)512 * 4096) /* of a send that is left */
#define MARK 0xee
#define AFTER "after disconnect() of another connection"

/* The peer sends what the other end was to receive. Its connection may fail. */
static void send_to_nobody(check_end *e, weft_conn *c)
{
    uint64_t sent, received;
    (void)!CHECK_LINK(e, send, c, e->memory, LEFT, e->region, 0);
    for (uint32_t i = 0; i < 20; i++)
        (void)!CHECK_LINK(e, progress, c, 0, &sent, &received);
    check_host_clear(&e->host);
}

static void left(check_end *e)
{
    unsigned char *in = e->memory + 4096, *out = in + LEFT;
    uint64_t done = 0;
    weft_conn *c = check_end_connect(e, e->peer, 0), *other = check_end_connect(e, e->peer, 1);
    if (!e->rank) {
        check_end_recv(e, c, in, LEFT);
        check_end_send(e, c, out, LONG);
        (void)!check_end_fate(e, c, 20);
        check_end_down(e, c);
        memset(in, MARK, LEFT);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (e->rank)
        send_to_nobody(e, c);
    check_end_rounds(e, other, 10, 1000, &done, AFTER);
    for (uint64_t i = 0; !e->rank && i < LEFT; i++)
        if (in[i] != MARK)
            check_fail("'%s' wrote to the memory of a receive after disconnect() of its "
                       "connection; on return of disconnect() no posted memory is accessed",
                       e->c->name);
    watch(e, 4096 + LEFT + LONG,
          "touched the memory of a message after disconnect() of its connection; on return of "
          "disconnect() no posted memory is accessed");
    if (!e->rank)
        allow(in, LEFT + LONG, PROT_NONE);
    check_end_rounds(e, other, 10, 1000, &done, AFTER);
    check_rank_exchange(e->k, NULL, 0, NULL);
    if (!e->rank)
        allow(in, LEFT + LONG, PROT_READ | PROT_WRITE);
}

void check_link_after(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 8, .memory = 4096 + LEFT + LONG, .others_only = true, .run = left};
    check_link_run(r, &job);
}
