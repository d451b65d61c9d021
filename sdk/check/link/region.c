/* check/link/region.c: registered memory: its bounds, its keys, and what peers do with it. */
#define _GNU_SOURCE
#include "check/link/link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((uint64_t)3 * 65536)

typedef struct arena { /* of one rank: memory that peers can map */
    int fd;
    unsigned char *at;
    weft_region *region;
    unsigned char key[2][4096]; /* of both ranks */
    uint64_t key_bytes[2];
} arena;

static bool has(const check_end *e, uint64_t caps)
{
    return e->t->caps & caps;
}

static weft_status add(check_end *e, void *at, uint64_t bytes, int fd, weft_region **out)
{
    const weft_memory memory = {sizeof memory, 0, at, bytes, fd, 0};
    return CHECK_LINK(e, register_memory, e->link, &memory, out);
}

/* Register an arena and give its key, if it has one, to the peer. */
static void arena_up(check_end *e, arena *a)
{
    static _Thread_local unsigned char all[16 * CHECK_EXCHANGE];
    a->fd = memfd_create("weft-check-arena", MFD_CLOEXEC);
    if (a->fd < 0 || ftruncate(a->fd, BYTES))
        check_fail("no memory for an arena");
    a->at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    if (a->at == MAP_FAILED)
        check_fail("no memory for an arena");
    const bool plain = !has(e, WEFT_LINK_FD_CUDA | WEFT_LINK_FD_DMABUF);
    check_end_ok(e, add(e, a->at, BYTES, plain ? a->fd : -1, &a->region), "register_memory");
    uint64_t n = has(e, WEFT_LINK_MAP) ? sizeof a->key[0] : 0;
    if (n)
        check_end_ok(e, CHECK_LINK(e, key, a->region, a->key[e->rank], &n), "key");
    if (n > sizeof a->key[0])
        check_fail("key() of '%s' has %llu bytes; 4096 at most", e->c->name, (unsigned long long)n);
    check_rank_exchange(e->k, &n, sizeof n, all);
    memcpy(a->key_bytes, all, sizeof a->key_bytes);
    check_rank_exchange(e->k, a->key[e->rank], sizeof a->key[0], all);
    memcpy(a->key, all, sizeof a->key);
}

static void arena_down(check_end *e, arena *a)
{
    check_rank_exchange(e->k, NULL, 0, NULL);
    PLUGIN_DO(e->t, deregister_memory, a->region);
    munmap(a->at, BYTES);
    close(a->fd);
}

/* A call that must be refused, with a sentence. */
static void refused(check_end *e, weft_status st, const char *member, const char *what)
{
    if (st == WEFT_OK)
        check_fail("%s() of '%s' accepted %s", member, e->c->name, what);
    if (!e->host.why[0])
        check_fail("%s() of '%s' refused %s and recorded no sentence", member, e->c->name, what);
    check_host_clear(&e->host);
}

/* Which of these the transport has; else the check does not concern it. */
static bool lacks(const check_end *e, uint64_t caps, const char *what)
{
    if (!has(e, caps))
        check_absent("'%s' has no %s", e->c->name, what);
    return !has(e, caps);
}

/* --- bounds --- */

/* A region of more bytes than its descriptor has: whoever maps it would have pages without memory.
 */
static void larger_than_its_file(check_end *e, const arena *a)
{
    static _Thread_local unsigned char all[16 * CHECK_EXCHANGE];
    unsigned char key[4096] = {0};
    uint64_t n = sizeof key, bytes[2] = {0};
    weft_region *r = NULL;
    const weft_status st = has(e, WEFT_LINK_MAP) ? add(e, a->at, 2 * BYTES, a->fd, &r) : WEFT_USAGE;
    if (st == WEFT_OK)
        check_end_ok(e, CHECK_LINK(e, key, r, key, &n), "key");
    n = st == WEFT_OK ? n : 0;
    check_rank_exchange(e->k, &n, sizeof n, all);
    memcpy(bytes, all, sizeof bytes);
    check_rank_exchange(e->k, key, sizeof key, all);
    void *seen = NULL;
    check_host_clear(&e->host);
    if (bytes[e->peer])
        refused(e,
                CHECK_LINK(e, map, e->link, e->peer, all + e->peer * sizeof key, bytes[e->peer], 0,
                           &seen),
                "map", "a region that is larger than the file of its memory");
    check_rank_exchange(e->k, NULL, 0, NULL);
    PLUGIN_DO(e->t, deregister_memory, r);
}

static void bounded(check_end *e)
{
    static _Thread_local arena a;
    weft_region *odd = NULL;
    if (lacks(e, WEFT_LINK_REGISTER | WEFT_LINK_MAP, "regions"))
        return;
    arena_up(e, &a);
    const weft_status st = add(e, a.at + 13, 4099, -1, &odd); /* any host memory */
    if (st != WEFT_UNSUPPORTED || has(e, WEFT_LINK_REGISTER))
        check_end_ok(e, st, "register_memory");
    check_host_clear(&e->host);
    PLUGIN_DO(e->t, deregister_memory, odd); /* NULL is allowed */
    larger_than_its_file(e, &a);
    weft_conn *c = check_end_connect(e, e->peer, 0);
    if (has(e, WEFT_LINK_REGISTER)) {
        refused(e, CHECK_LINK(e, send, c, a.at + 1, BYTES, a.region, 0), "send",
                "memory beyond its region");
        refused(e, CHECK_LINK(e, recv, c, a.at - 1, 8, a.region, 0), "recv",
                "memory before its region");
        refused(e, CHECK_LINK(e, recv, c, a.at + BYTES, 1, a.region, 0), "recv",
                "memory behind its region");
        refused(e, CHECK_LINK(e, recv, c, NULL, 1, a.region, 0), "recv", "no memory");
    }
    arena_down(e, &a);
}

void check_link_bounds(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 8, .others_only = true, .run = bounded};
    check_link_run(r, &job);
}

/* --- keys --- */

/* What a forged key opens is at most a part of the region. */
static void try_key(check_end *e, const unsigned char *from, uint64_t bytes, const char *what)
{
    unsigned char *at = check_guard(from, bytes), *seen = NULL;
    check_host_clear(&e->host);
    const weft_status st = CHECK_LINK(e, map, e->link, e->peer, at, bytes, 0, (void **)&seen);
    if (st == WEFT_OK && (!seen || !check_pattern_holds(seen, 4096, 5)))
        check_fail("map() of '%s' accepted a key that is %s, and what it mapped is not the "
                   "peer's region",
                   e->c->name, what);
    if (st == WEFT_OK && strcmp(what, "forged") != 0)
        check_fail("map() of '%s' accepted a key that is %s; its length is a part of it",
                   e->c->name, what);
    if (st != WEFT_OK && !e->host.why[0])
        check_fail("map() of '%s' refused a key that is %s and recorded no sentence", e->c->name,
                   what);
    check_guard_free(at, bytes);
}

/* How many bytes of a key may be changed without a refusal: those of a smaller length. */
#define LAWFUL 3u

static void forge(check_end *e, const arena *a)
{
    const unsigned char *good = a->key[e->peer];
    const uint64_t n = a->key_bytes[e->peer];
    unsigned char bad[4096];
    uint32_t opened = 0;
    for (uint64_t bytes = 0; bytes < n; bytes += 1 + bytes / 4)
        try_key(e, good, bytes, "cut");
    try_key(e, good, n - 1, "cut");
    for (uint64_t at = 0; at < n; at++) {
        void *seen = NULL;
        memcpy(bad, good, sizeof bad);
        bad[at] ^= 0x10;
        opened += CHECK_LINK(e, map, e->link, e->peer, bad, n, 0, &seen) == WEFT_OK;
        try_key(e, bad, n, "forged");
    }
    if (opened > LAWFUL)
        check_fail("%u of the %llu bytes of a key can be changed, and map() of '%s' accepts it; a "
                   "key proves whose it is",
                   opened, (unsigned long long)n, e->c->name);
    check_host_clear(&e->host);
}

static void keys(check_end *e)
{
    static _Thread_local arena a;
    if (lacks(e, WEFT_LINK_MAP, "keys"))
        return;
    arena_up(e, &a);
    check_pattern(a.at, BYTES, 5);
    check_rank_exchange(e->k, NULL, 0, NULL);
    forge(e, &a);
    arena_down(e, &a);
}

void check_link_keys(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 8, .others_only = true, .run = keys};
    check_link_run(r, &job);
}

/* --- mapped writes --- */

#define ROUNDS 40u

static void signal_peer(check_end *e, weft_conn *c, uint64_t *done)
{
    check_end_recv(e, c, NULL, 0);
    check_end_send(e, c, NULL, 0);
    ++*done;
    check_end_finish(e, c, *done, *done);
}

/* Each rank writes to the peer's region, and both signal. */
static void mapped(check_end *e)
{
    static _Thread_local arena a;
    void *seen = NULL;
    uint64_t done = 0;
    if (lacks(e, WEFT_LINK_MAP, "map()"))
        return;
    arena_up(e, &a);
    weft_conn *c = check_end_connect(e, e->peer, 0);
    check_end_ok(
        e, CHECK_LINK(e, map, e->link, e->peer, a.key[e->peer], a.key_bytes[e->peer], 0, &seen),
        "map");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        check_pattern(seen, BYTES, 2 * i + e->rank);
        signal_peer(e, c, &done);
        if (!check_pattern_holds(a.at, BYTES, 2 * i + e->peer))
            check_fail("rank %u wrote to the mapped region of rank %u and sent a message, and '%s' "
                       "completed its receive before all bytes were there",
                       e->peer, e->rank, e->c->name);
        signal_peer(e, c, &done);
    }
    arena_down(e, &a);
}

void check_link_mapped(check_run *r)
{
    const check_link_job job = {.ranks = 2, .seconds = 8, .others_only = true, .run = mapped};
    check_link_run(r, &job);
}
