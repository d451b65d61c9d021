/* check/link/end.c: one rank of a check of a transport. See link.h. */
#include "base/clock.h"
#include "base/err.h"
#include "base/time/pressure.h"
#include "check/link/link.h"
#include "check/took.h"

#include <stdio.h>
#include <string.h>

#define WAIT_US 1000u

static const char *why(const check_end *e)
{
    return e->host.why[0] ? e->host.why : err_text()[0] ? err_text() : "no sentence was recorded";
}

void check_end_ok(check_end *e, weft_status st, const char *member)
{
    if (st != WEFT_OK)
        check_fail("%s() of '%s' returned %s on rank %u, and the call is lawful: %s", member,
                   e->c->name, check_status(st), e->rank, why(e));
}

/* Every rank gives its part; parts may be longer than one exchange. */
void check_end_tell(check_end *e)
{
    static _Thread_local unsigned char all[16 * CHECK_EXCHANGE];
    check_rank_exchange(e->k, &e->address_bytes[e->rank], sizeof *e->address_bytes, all);
    memcpy(e->address_bytes, all, e->ranks * sizeof *e->address_bytes);
    check_rank_exchange(e->k, e->address[e->rank], sizeof *e->address, all);
    memcpy(e->address, all, e->ranks * sizeof *e->address);
}

static void add_memory(check_end *e, uint64_t bytes)
{
    const weft_memory memory = {sizeof memory, 0, e->memory, bytes, -1, 0};
    if (bytes && e->t->caps & WEFT_LINK_REGISTER)
        check_end_ok(e, CHECK_LINK(e, register_memory, e->link, &memory, &e->region),
                     "register_memory");
}

weft_status check_end_create(check_end *e, const char *job_id)
{
    const weft_link_args args = {.struct_size = sizeof args,
                                 .rank = e->rank,
                                 .ranks = e->ranks,
                                 .local_rank = e->rank,
                                 .local_ranks = e->ranks,
                                 .conf = e->conf,
                                 .bind_addr = "127.0.0.1",
                                 .job_id = job_id};
    return CHECK_LINK(e, create, e->module, &args, &e->link);
}

weft_status check_end_address(check_end *e)
{
    e->address_bytes[e->rank] = sizeof *e->address;
    return CHECK_LINK(e, address, e->link, e->address[e->rank], &e->address_bytes[e->rank]);
}

void check_end_up(check_end *e)
{
    const check_link_of *of = e->k->arg;
    check_end_ok(e, check_end_create(e, of->id), "create");
    add_memory(e, of->job->memory);
    check_end_ok(e, check_end_address(e), "address");
    if (e->address_bytes[e->rank] > sizeof *e->address)
        check_fail("address() of '%s' has %llu bytes; 4096 at most", e->c->name,
                   (unsigned long long)e->address_bytes[e->rank]);
    check_end_tell(e);
}

weft_conn *check_end_begin(check_end *e, uint32_t peer, uint32_t channel)
{
    const weft_conn_args args = {sizeof args,           0, peer, channel, e->address[peer],
                                 e->address_bytes[peer]};
    weft_conn *c = NULL;
    check_end_ok(e, CHECK_LINK(e, connect, e->link, &args, &c), "connect");
    for (uint32_t i = 0; i < CHECK_LINK_CONNS; i++)
        if (!e->conns[i]) {
            e->conns[i] = c;
            return c;
        }
    check_fail("the check has more than %u connections", CHECK_LINK_CONNS);
}

void check_end_wait(check_end *e, const char *what)
{
    if (pressure_ms() > e->until)
        check_fail("rank %u of '%s' still waits for %s at the deadline%s%s", e->rank, e->c->name,
                   what, e->host.why[0] ? ": " : "", e->host.why);
    check_end_ok(e, CHECK_LINK(e, wait, e->link, 0, WAIT_US, 0), "wait");
}

void check_end_ready(check_end *e, weft_conn *c)
{
    for (;;) {
        const weft_status st = CHECK_LINK(e, ready, c);
        if (st == WEFT_OK)
            return;
        if (st != WEFT_BUSY)
            check_end_ok(e, st, "ready");
        check_end_wait(e, "ready()");
    }
}

weft_conn *check_end_connect(check_end *e, uint32_t peer, uint32_t channel)
{
    weft_conn *c = check_end_begin(e, peer, channel);
    check_end_ready(e, c);
    return c;
}

void check_end_down(check_end *e, weft_conn *c)
{
    PLUGIN_DO(e->t, disconnect, c);
    for (uint32_t i = 0; i < CHECK_LINK_CONNS; i++)
        if (e->conns[i] == c)
            e->conns[i] = NULL;
}

void check_end_progress(check_end *e, weft_conn *c, uint64_t *sent, uint64_t *received)
{
    check_end_ok(e, CHECK_LINK(e, progress, c, 0, sent, received), "progress");
}

void check_end_finish(check_end *e, weft_conn *c, uint64_t sent, uint64_t received)
{
    for (;;) {
        uint64_t out = 0, in = 0;
        check_end_progress(e, c, &out, &in);
        if (out > sent || in > received)
            check_fail("progress() of '%s' counts %llu sends and %llu receives; %llu and %llu were "
                       "posted",
                       e->c->name, (unsigned long long)out, (unsigned long long)in,
                       (unsigned long long)sent, (unsigned long long)received);
        if (out == sent && in == received)
            return;
        check_end_wait(e, "messages to complete");
    }
}

void check_end_send(check_end *e, weft_conn *c, const void *from, uint64_t bytes)
{
    uint64_t out, in;
    weft_status st;
    while ((st = CHECK_LINK(e, send, c, from, bytes, e->region, 0)) == WEFT_BUSY) {
        check_end_progress(e, c, &out, &in);
        check_end_wait(e, "room in the queue of sends");
    }
    check_end_ok(e, st, "send");
}

void check_end_recv(check_end *e, weft_conn *c, void *to, uint64_t bytes)
{
    uint64_t out, in;
    weft_status st;
    while ((st = CHECK_LINK(e, recv, c, to, bytes, e->region, 0)) == WEFT_BUSY) {
        check_end_progress(e, c, &out, &in);
        check_end_wait(e, "room in the queue of receives");
    }
    check_end_ok(e, st, "recv");
}

uint64_t check_end_size(const check_end *e, uint64_t *state, uint64_t max)
{
    return lengths_draw(&e->sizes, max, check_random(state));
}

weft_status check_end_fate(check_end *e, weft_conn *c, uint32_t ms)
{
    const uint64_t until = pressure_ms() + ms;
    while (pressure_ms() < until) {
        uint64_t out, in;
        weft_status st = CHECK_LINK(e, progress, c, 0, &out, &in);
        if (st == WEFT_OK)
            st = CHECK_LINK(e, wait, e->link, 0, WAIT_US, 0);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

void check_pattern(void *to, uint64_t bytes, uint64_t seed)
{
    unsigned char *at = to;
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)((i * 2654435761u + seed * 40503u) >> 7);
}

bool check_pattern_holds(const void *from, uint64_t bytes, uint64_t seed)
{
    const unsigned char *at = from;
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)((i * 2654435761u + seed * 40503u) >> 7))
            return false;
    return true;
}

void check_end_rounds(check_end *e, weft_conn *c, uint32_t rounds, uint64_t bytes, uint64_t *done,
                      const char *what)
{
    for (uint32_t i = 0; i < rounds; i++) {
        const uint64_t k = ++*done;
        check_pattern(e->memory, bytes, 100 * k + e->rank);
        check_end_recv(e, c, e->memory + bytes, bytes);
        check_end_send(e, c, e->memory, bytes);
        check_end_finish(e, c, k, k);
        if (!check_pattern_holds(e->memory + bytes, bytes, 100 * k + e->peer))
            check_fail("%s '%s' delivered other bytes to rank %u than were sent", what, e->c->name,
                       e->rank);
    }
}

#define LONG_NS ((uint64_t)5000000)

void check_timed_note(check_timed *t, uint64_t since)
{
    const uint64_t took = check_took_ns(since);
    t->calls++;
    t->late += took > LONG_NS;
    t->longest = took > t->longest ? took : t->longest;
}

void check_timed_report(const check_end *e, const check_timed *t, uint32_t max, const char *when)
{
    if (t->late > max)
        check_fail("%s, and %u of %u calls of %s() of '%s' took more than 5 ms, the longest %.0f "
                   "ms; no call but wait() blocks",
                   when, t->late, t->calls, t->member, e->c->name, (double)t->longest / 1e6);
}
