/* check/coll/setup.c: communicators that begin, their ids, and those that are split. */
#include "check/coll/coll.h"
#include "check/took.h"

#include <stdio.h>
#include <string.h>

/* --- one rank is late --- */

#define POLLS 60u
#define LONG_NS 200000000u /* of a call that begins something */

static void must_be_short(const check_party *p, const char *member, uint64_t since)
{
    const uint64_t took = check_took_ns(since);
    if (took > LONG_NS)
        check_fail("rank %u has not called open() yet, and %s() of '%s' took %llu ms on rank %u; "
                   "it only begins",
                   p->ranks - 1, member, p->c->name, (unsigned long long)took / 1000000, p->rank);
}

static void open_early(check_party *p, const unsigned char *id, uint64_t bytes)
{
    uint64_t since = check_took_begin();
    p->comm = check_party_open(p, id, bytes);
    must_be_short(p, "open", since);
    for (uint32_t i = 0; i < POLLS; i++) {
        since = check_took_begin();
        const weft_status st = CHECK_COLL(p, ready, p->comm);
        must_be_short(p, "ready", since);
        if (st == WEFT_OK)
            check_fail("ready() of '%s' returned WEFT_OK on rank %u before rank %u has called "
                       "open(); it is WEFT_BUSY until all ranks are in",
                       p->c->name, p->rank, p->ranks - 1);
        if (st != WEFT_BUSY)
            check_party_ok(p, st, "ready");
        check_party_wait(p, "the last rank");
    }
}

static void one_late(check_party *p)
{
    unsigned char id[4096];
    uint64_t bytes;
    check_party_id(p, id, &bytes);
    if (p->rank + 1 < p->ranks)
        open_early(p, id, bytes);
    check_rank_exchange(p->k, NULL, 0, NULL);
    if (!p->comm)
        p->comm = check_party_open(p, id, bytes);
    check_party_ready(p, p->comm);
    check_party_works(p, "after one rank had opened late,");
}

void check_coll_open(check_run *r)
{
    const check_coll_job job = {.ranks = 3, .seconds = 6, .not_up = true, .run = one_late};
    check_coll_run(r, &job);
}

/* --- ids --- */

#define IDS 12u

static void ask_ids(check_party *p)
{
    static unsigned char ids[IDS][4096];
    uint64_t bytes[IDS];
    for (uint32_t i = 0; !p->rank && i < IDS; i++) {
        bytes[i] = 4096;
        unsigned char *at = check_guard(NULL, 4096);
        check_party_ok(p, CHECK_COLL(p, id, p->module, p->conf, at, &bytes[i]), "id");
        if (bytes[i] > 4096)
            check_fail("id() of '%s' has %llu bytes; 4096 at most", p->c->name,
                       (unsigned long long)bytes[i]);
        memcpy(ids[i], at, bytes[i]);
        check_guard_free(at, 4096);
        for (uint32_t k = 0; k < i; k++)
            if (bytes[k] == bytes[i] && !memcmp(ids[k], ids[i], bytes[i]))
                check_fail("two calls of id() of '%s' gave the same %llu bytes; each identifies a "
                           "new communicator",
                           p->c->name, (unsigned long long)bytes[i]);
    }
    for (uint64_t capacity = 0; !p->rank && capacity < bytes[0]; capacity += 1 + capacity / 4) {
        uint64_t n = capacity;
        unsigned char *at = check_guard(NULL, capacity); /* a fault where it writes beyond */
        const weft_status st = CHECK_COLL(p, id, p->module, p->conf, at, &n);
        if (st == WEFT_OK && n > capacity)
            check_fail("id() of '%s' got room for %llu bytes, and says that it wrote %llu",
                       p->c->name, (unsigned long long)capacity, (unsigned long long)n);
        check_guard_free(at, capacity);
    }
    check_host_clear(&p->host);
    check_rank_exchange(p->k, NULL, 0, NULL);
}

void check_coll_ids(check_run *r)
{
    const check_coll_job job = {.ranks = 1, .seconds = 6, .not_up = true, .run = ask_ids};
    check_coll_run(r, &job);
}

/* --- split --- */

#define RANKS 4u

/* Even and odd ranks, each in a group of its own, in the order of their ranks. */
static void split(check_party *p)
{
    const uint32_t color = p->rank % 2, members[] = {color, color + 2};
    weft_comm *half = NULL;
    const weft_coll_args args = {.struct_size = sizeof args,
                                 .rank = p->rank / 2,
                                 .ranks = RANKS / 2,
                                 .parent = p->comm,
                                 .color = color,
                                 .conf = p->conf,
                                 .members = members};
    const weft_status st = CHECK_COLL(p, open, p->module, &args, &half);
    if (st == WEFT_UNSUPPORTED)
        check_not_applicable("'%s' splits no communicator: %s", p->c->name, check_party_why(p));
    check_party_ok(p, st, "open");
    check_party_ready(p, half);
    for (uint32_t i = 0; i < 3; i++) {
        int32_t in = (int32_t)(100 * i + p->rank), out[RANKS / 2] = {-1, -1};
        const weft_coll_call all = {
            .kind = WEFT_ALL_GATHER, .dtype = WEFT_I32, .in = &in, .out = out, .count = RANKS / 2};
        check_party_do_on(p, half, i, &all);
        for (uint32_t k = 0; k < RANKS / 2; k++)
            if (out[k] != (int32_t)(100 * i + members[k]))
                check_fail("a communicator of '%s' was split by colour, ranks 0 and 2 from 1 and "
                           "3, and an all-gather on rank %u has %d at place %u instead of %u: the "
                           "groups have the ranks of one colour, in their order",
                           p->c->name, p->rank, out[k], k, 100 * i + members[k]);
    }
    PLUGIN_DO(p->t, close, half);
    check_party_works(p, "after a part of the communicator was closed,");
}

void check_coll_split(check_run *r)
{
    const check_coll_job job = {.ranks = RANKS, .seconds = 5, .run = split};
    check_coll_run(r, &job);
}

/* --- registration --- */

#define BYTES 65536u

static void with_registration(check_party *p)
{
    if (!WEFT_HAS(p->t, register_memory))
        check_not_applicable("'%s' has no register_memory()", p->c->name);
    void *at = check_guard(NULL, BYTES);
    const weft_status st = CHECK_COLL(p, register_memory, p->comm, at, BYTES, 0);
    if (st != WEFT_UNSUPPORTED)
        check_party_ok(p, st, "register_memory");
    check_host_clear(&p->host);
    check_party_works(p, st == WEFT_OK ? "after register_memory()"
                                       : "after register_memory() had returned WEFT_UNSUPPORTED,");
    check_party_down(p); /* deregisters */
    check_guard_free(at, BYTES);
}

void check_coll_register(check_run *r)
{
    const check_coll_job job = {.ranks = 2, .seconds = 5, .run = with_registration};
    check_coll_run(r, &job);
}
