/* check/coll/group.c: groups: with a call that fails, with many operations, and beside a rank that
 * is late. */
#include "check/coll/coll.h"
#include "check/took.h"

#include <string.h>

/* --- a call that fails --- */

#define NONE 99u

static void after_a_failed_call(check_party *p)
{
    static const struct {
        const char *what;
        uint32_t flags, kind, redop, dtype;
    } wrong[] = {{"kind 99", 0, NONE, 0, WEFT_F32},
                 {"type 99", 0, WEFT_ALL_REDUCE, WEFT_SUM, NONE},
                 {"operator 99", 0, WEFT_ALL_REDUCE, NONE, WEFT_F32},
                 {"flag 1", 1, WEFT_ALL_REDUCE, WEFT_SUM, WEFT_F32}};
    float in = 1, out = 0;
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const weft_coll_call call = {.struct_size = sizeof call,
                                     .flags = wrong[i].flags,
                                     .kind = wrong[i].kind,
                                     .redop = wrong[i].redop,
                                     .dtype = wrong[i].dtype,
                                     .in = &in,
                                     .out = &out,
                                     .count = 1};
        check_party_ok(p, CHECK_COLL(p, begin, p->module, 0), "begin");
        const weft_status st = CHECK_COLL(p, call, p->comm, &call);
        if (st != WEFT_UNSUPPORTED)
            check_fail("call() of '%s' returned %s for the %s, which does not exist, and not "
                       "WEFT_UNSUPPORTED",
                       p->c->name, check_status(st), wrong[i].what);
        if (!p->host.why[0])
            check_fail("call() of '%s' refused the %s and recorded no sentence", p->c->name,
                       wrong[i].what);
        check_host_clear(&p->host);
        check_party_ok(p, CHECK_COLL(p, end, p->module, 0), "end");
        check_party_works(p, "after a group whose only call had failed,");
    }
    uint64_t done;
    const weft_status st = CHECK_COLL(p, test, p->comm, 1, &done);
    if (st != WEFT_UNSUPPORTED)
        check_fail("test() of '%s' returned %s for an unknown flag, and not WEFT_UNSUPPORTED",
                   p->c->name, check_status(st));
    check_host_clear(&p->host);
}

void check_coll_failed(check_run *r)
{
    const check_coll_job job = {.ranks = 2, .seconds = 5, .run = after_a_failed_call};
    check_coll_run(r, &job);
}

/* --- many operations --- */

#define OPS 12u
#define GROUPS 5u
#define COUNT 999u

static void many(check_party *p)
{
    static int32_t in[GROUPS][OPS][COUNT], out[GROUPS][OPS][COUNT];
    weft_coll_call calls[OPS];
    const int32_t n = (int32_t)p->ranks;
    if (!check_party_has(p, WEFT_ALL_REDUCE, WEFT_SUM, WEFT_I32))
        check_not_applicable("'%s' has no all-reduce of i32", p->c->name);
    for (uint32_t g = 0; g < GROUPS; g++) { /* all are in flight together */
        for (uint32_t k = 0; k < OPS; k++) {
            for (uint32_t i = 0; i < COUNT; i++)
                in[g][k][i] = (int32_t)(g * 100 + k * 10 + i + p->rank);
            calls[k] = (weft_coll_call){.kind = WEFT_ALL_REDUCE,
                                        .redop = WEFT_SUM,
                                        .dtype = WEFT_I32,
                                        .in = in[g][k],
                                        .out = out[g][k],
                                        .count = COUNT};
        }
        check_party_start(p, calls, OPS);
    }
    check_party_finish(p);
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t k = 0; k < OPS; k++)
            for (uint32_t i = 0; i < COUNT; i++)
                if (out[g][k][i] != n * (int32_t)(g * 100 + k * 10 + i) + n * (n - 1) / 2)
                    check_fail("%u groups of %u operations were started and counted, and operation "
                               "%u of group %u by '%s' has not been done: its work was lost%s",
                               GROUPS, OPS, k + 1, g + 1, p->c->name,
                               " (end() may be WEFT_BUSY; ready() is then polled)");
}

void check_coll_busy(check_run *r)
{
    const check_coll_job job = {.ranks = 2, .seconds = 4, .run = many};
    check_coll_run(r, &job);
}

/* --- a rank that is late --- */

#define LONG_NS ((uint64_t)5000000)
#define POLLS 100u
#define MAX_LONG 10u /* calls that the machine may have interrupted */

static void poll_alone(check_party *p)
{
    uint32_t late = 0;
    uint64_t longest = 0, done = 0, took;
    for (uint32_t i = 0; i < POLLS; i++) {
        const uint64_t since = check_took_begin();
        check_party_ok(p, CHECK_COLL(p, test, p->comm, 0, &done), "test");
        took = check_took_ns(since);
        late += took > LONG_NS;
        longest = took > longest ? took : longest;
        if (done >= p->groups)
            check_fail("test() of '%s' counts an all-reduce that another rank has not begun",
                       p->c->name);
    }
    if (late > MAX_LONG)
        check_fail("a rank is late, and %u of %u calls of test() of '%s' took more than 5 ms, the "
                   "longest %.0f ms; the host goes on meanwhile",
                   late, POLLS, p->c->name, (double)longest / 1e6);
}

/* Two groups of which the second uses the result of the first. */
static void in_order(check_party *p)
{
    float first = (float)p->rank + 1, sum = -1, twice = -1;
    const float n = (float)p->ranks, want = n * (n + 1) / 2;
    const weft_coll_call a = {.kind = WEFT_ALL_REDUCE,
                              .redop = WEFT_SUM,
                              .dtype = WEFT_F32,
                              .in = &first,
                              .out = &sum,
                              .count = 1};
    weft_coll_call b = a;
    b.in = &sum;
    b.out = &twice;
    const bool early = !p->rank;
    uint64_t took = 0;
    if (early) {
        const uint64_t since = check_took_begin();
        check_party_start(p, &a, 1);
        took = check_took_ns(since);
        poll_alone(p);
    }
    if (took > 40 * LONG_NS)
        check_fail("a rank is late, and begin(), call() and end() of '%s' took %.0f ms; they only "
                   "start the work",
                   p->c->name, (double)took / 1e6);
    check_rank_exchange(p->k, NULL, 0, NULL);
    if (!early)
        check_party_start(p, &a, 1);
    check_party_finish(p);
    check_party_do(p, &b);
    if (sum != want || twice != n * want)
        check_fail("an all-reduce by '%s', and another one of its result, gave %g and %g instead "
                   "of %g and %g",
                   p->c->name, (double)sum, (double)twice, (double)want, (double)(n * want));
}

void check_coll_goes_on(check_run *r)
{
    const check_coll_job job = {.ranks = 2, .seconds = 5, .run = in_order};
    check_coll_run(r, &job);
}
