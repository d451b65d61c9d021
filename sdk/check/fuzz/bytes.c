/* check/fuzz/bytes.c: bytes of others that a transport reads: addresses, keys, and what strangers
 * say at its listening sockets. Whatever they are, it refuses, waits, or goes on. */
#define _GNU_SOURCE
#include "check/fuzz/fuzz.h"
#include "check/link/link.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TRIES 250u
#define STRANGERS 60u
#define DOORS 8u
#define LIMIT 400u
#define ARENA 4096u

/* Change some bytes, and perhaps the length, within `capacity`. */
static uint64_t mutate(unsigned char *at, uint64_t bytes, uint64_t capacity, uint64_t *seed)
{
    static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff};
    if (check_random(seed) % 3 == 0)
        bytes = check_random(seed) % (capacity + 1);
    const uint64_t changes = 1 + check_random(seed) % 8;
    for (uint64_t i = 0; i < changes && bytes; i++) {
        const uint64_t where = check_random(seed) % bytes, run = 1 + check_random(seed) % 8;
        const bool edge = check_random(seed) % 2;
        for (uint64_t k = where; k < bytes && k < where + run; k++)
            at[k] = edge ? edges[changes % 5] : (unsigned char)check_random(seed);
    }
    return bytes;
}

static void addresses(check_end *e, uint64_t *seed)
{
    unsigned char bytes[4096];
    for (uint32_t i = 0; i < TRIES; i++) {
        memcpy(bytes, e->address[e->peer], sizeof bytes);
        const uint64_t n = mutate(bytes, e->address_bytes[e->peer], sizeof bytes, seed);
        unsigned char *at = check_guard(bytes, n);
        const weft_conn_args args = {sizeof args, 0, e->peer, i + 100, at, n};
        weft_conn *c = NULL;
        weft_status st = CHECK_LINK(e, connect, e->link, &args, &c);
        if (st == WEFT_OK && e->t->caps & WEFT_LINK_LOCAL) /* another one would dial anywhere */
            st = CHECK_LINK(e, ready, c);
        if (c)
            PLUGIN_DO(e->t, disconnect, c);
        check_guard_free(at, n);
    }
}

/* Keys like that of a region of the peer. */
static void keys(check_end *e, uint64_t *seed)
{
    static unsigned char all[16 * CHECK_EXCHANGE];
    unsigned char key[4096] = {0}, bytes[4096];
    uint64_t n = sizeof key, lengths[16];
    weft_region *r = NULL;
    const int fd = memfd_create("weft-check-arena", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, ARENA))
        check_fail("no memory for a region");
    void *own = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const weft_memory memory = {sizeof memory, 0, own, ARENA, fd, 0};
    check_end_ok(e, CHECK_LINK(e, register_memory, e->link, &memory, &r), "register_memory");
    check_end_ok(e, CHECK_LINK(e, key, r, key, &n), "key");
    check_rank_exchange(e->k, &n, sizeof n, all);
    memcpy(lengths, all, e->ranks * sizeof *lengths);
    check_rank_exchange(e->k, key, sizeof key, all);
    for (uint32_t i = 0; i < TRIES; i++) {
        void *base = NULL;
        memcpy(bytes, all + e->peer * sizeof key, sizeof bytes);
        n = mutate(bytes, lengths[e->peer], sizeof bytes, seed);
        unsigned char *at = check_guard(bytes, n);
        (void)!CHECK_LINK(e, map, e->link, e->peer, at, n, 0, &base);
        check_guard_free(at, n);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
    PLUGIN_DO(e->t, deregister_memory, r);
    munmap(own, ARENA);
    close(fd);
}

/* Strangers at the doors of this rank, which polls a connection meanwhile. */
static void greetings(check_end *e, weft_conn *c, uint64_t *seed)
{
    int door[DOORS], fd[STRANGERS];
    const uint32_t n = check_link_listeners(door, DOORS);
    for (uint32_t i = 0; n && i < STRANGERS; i++) {
        unsigned char says[LIMIT];
        memset(says, i % 4 == 0 ? 0xff : 0, sizeof says);
        const uint64_t bytes = i % 4 == 0 ? 1 + i : mutate(says, LIMIT, LIMIT, seed);
        says[0] |= 0x80; /* zeros might be the greeting of rank 0 */
        fd[i] = check_link_stranger(door[i % n], says, bytes);
        const weft_status st = CHECK_LINK(e, ready, c);
        if (st != WEFT_OK && st != WEFT_BUSY)
            check_fail("a stranger said some bytes at a socket of '%s', and ready() of a "
                       "connection returned %s; strangers are dropped: %s",
                       e->c->name, check_status(st), e->host.why);
        if (i % 2 && fd[i] >= 0) {
            close(fd[i]);
            fd[i] = -1;
        }
    }
    for (uint32_t i = 0; n && i < STRANGERS; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

static void bytes_of_others(check_end *e)
{
    uint64_t seed = e->run->seed * 7919 + e->rank, done = 0;
    addresses(e, &seed);
    check_host_clear(&e->host);
    if (e->t->caps & WEFT_LINK_MAP)
        keys(e, &seed);
    check_host_clear(&e->host);
    for (uint32_t first = 0; first < 2; first++) { /* before the peer has begun */
        weft_conn *c = e->rank == first ? check_end_begin(e, e->peer, first) : NULL;
        done = 0;
        if (c)
            greetings(e, c, &seed);
        check_rank_exchange(e->k, NULL, 0, NULL);
        if (!c)
            c = check_end_begin(e, e->peer, first);
        check_end_ready(e, c);
        check_end_rounds(e, c, 5, 1000, &done, "after bytes of strangers");
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_fuzz_bytes(check_run *r)
{
    const check_link_job job = {
        .ranks = 2, .seconds = 10, .memory = 2000, .others_only = true, .run = bytes_of_others};
    check_link_run(r, &job);
}
