/* check/coll/party.c: one rank of a check of a library of collectives. See coll.h. */
#include "base/clock.h"
#include "base/err.h"
#include "base/time/pressure.h"
#include "check/coll/coll.h"

#include <string.h>
#include <time.h>

const char *check_party_why(const check_party *p)
{
    return p->host.why[0] ? p->host.why : err_text()[0] ? err_text() : "no sentence was recorded";
}

void check_party_ok(check_party *p, weft_status st, const char *member)
{
    if (st != WEFT_OK)
        check_fail("%s() of '%s' returned %s on rank %u, and the call is lawful: %s", member,
                   p->c->name, check_status(st), p->rank, check_party_why(p));
}

void check_party_wait(check_party *p, const char *what)
{
    if (pressure_ms() > p->until)
        check_fail("rank %u of '%s' still waits for %s at the deadline%s%s", p->rank, p->c->name,
                   what, p->host.why[0] ? ": " : "", p->host.why);
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

void check_party_id(check_party *p, unsigned char id[4096], uint64_t *bytes)
{
    static unsigned char all[16 * CHECK_EXCHANGE];
    uint64_t n = 4096;
    memset(id, 0, 4096);
    if (!p->rank)
        check_party_ok(p, CHECK_COLL(p, id, p->module, p->conf, id, &n), "id");
    if (n > 4096)
        check_fail("id() of '%s' has %llu bytes; 4096 at most", p->c->name, (unsigned long long)n);
    check_rank_exchange(p->k, &n, sizeof n, all);
    memcpy(bytes, all, sizeof *bytes);
    check_rank_exchange(p->k, id, 4096, all);
    memcpy(id, all, 4096);
}

weft_comm *check_party_open(check_party *p, const unsigned char *id, uint64_t bytes)
{
    uint32_t members[16];
    weft_comm *c = NULL;
    for (uint32_t i = 0; i < p->ranks; i++)
        members[i] = i;
    const weft_coll_args args = {.struct_size = sizeof args,
                                 .rank = p->rank,
                                 .ranks = p->ranks,
                                 .id = id,
                                 .id_bytes = bytes,
                                 .conf = p->conf,
                                 .members = members};
    check_party_ok(p, CHECK_COLL(p, open, p->module, &args, &c), "open");
    if (!c)
        check_fail("open() of '%s' returned WEFT_OK without a communicator", p->c->name);
    return c;
}

void check_party_ready(check_party *p, weft_comm *c)
{
    for (weft_status st; (st = CHECK_COLL(p, ready, c)) != WEFT_OK;) {
        if (st != WEFT_BUSY)
            check_party_ok(p, st, "ready");
        check_party_wait(p, "ready()");
    }
}

void check_party_down(check_party *p)
{
    if (p->comm)
        PLUGIN_DO(p->t, close, p->comm);
    p->comm = NULL;
}

static void start(check_party *p, weft_comm *c, const weft_coll_call *calls, uint32_t n)
{
    check_party_ok(p, CHECK_COLL(p, begin, p->module, 0), "begin");
    for (uint32_t i = 0; i < n; i++) {
        weft_coll_call one = calls[i];
        one.struct_size = sizeof one;
        check_party_ok(p, CHECK_COLL(p, call, c, &one), "call");
    }
    const weft_status st = CHECK_COLL(p, end, p->module, 0);
    if (st == WEFT_BUSY)
        check_party_ready(p, c);
    else
        check_party_ok(p, st, "end");
}

static void finish(check_party *p, weft_comm *c, uint64_t groups)
{
    for (uint64_t done = 0, before = 0;; before = done) {
        check_party_ok(p, CHECK_COLL(p, test, c, 0, &done), "test");
        if (done < before || done > groups)
            check_fail("test() of '%s' counts %llu groups; before it were %llu, and %llu were "
                       "started",
                       p->c->name, (unsigned long long)done, (unsigned long long)before,
                       (unsigned long long)groups);
        if (done == groups)
            return;
        check_party_wait(p, "a group of operations to complete");
    }
}

void check_party_start(check_party *p, const weft_coll_call *calls, uint32_t n)
{
    start(p, p->comm, calls, n);
    p->groups++;
}

void check_party_finish(check_party *p)
{
    finish(p, p->comm, p->groups);
}

void check_party_do(check_party *p, const weft_coll_call *call)
{
    check_party_start(p, call, 1);
    check_party_finish(p);
}

void check_party_do_on(check_party *p, weft_comm *c, uint64_t groups, const weft_coll_call *call)
{
    start(p, c, call, 1);
    finish(p, c, groups + 1);
}

bool check_party_has(check_party *p, uint32_t kind, uint32_t redop, uint32_t dtype)
{
    if (!WEFT_HAS(p->t, supports))
        return kind == WEFT_ALL_REDUCE && redop == WEFT_SUM && dtype == WEFT_F32;
    const weft_status st = CHECK_COLL(p, supports, p->module, kind, redop, dtype);
    if (st != WEFT_OK && st != WEFT_UNSUPPORTED)
        check_party_ok(p, st, "supports");
    check_host_clear(&p->host);
    return st == WEFT_OK;
}

void check_party_works(check_party *p, const char *when)
{
    float in = (float)p->rank + 1, out = 0;
    const weft_coll_call sum = {.kind = WEFT_ALL_REDUCE,
                                .redop = WEFT_SUM,
                                .dtype = WEFT_F32,
                                .in = &in,
                                .out = &out,
                                .count = 1};
    const float expected = (float)(p->ranks * (p->ranks + 1) / 2);
    check_party_do(p, &sum);
    if (out != expected)
        check_fail("%s an all-reduce of 1 to %u by '%s' is %g on rank %u instead of %g", when,
                   p->ranks, p->c->name, (double)out, p->rank, (double)expected);
}
