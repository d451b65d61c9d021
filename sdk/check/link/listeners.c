/* check/link/listeners.c: where a transport listens, and whom it lets in.
 *
 * The sockets are those of the rank's own process, whatever the transport calls its address. */
#define _GNU_SOURCE
#include "check/link/link.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DOORS 16u

static bool is_door(int fd)
{
    int listens = 0, type = 0;
    socklen_t n = sizeof listens, m = sizeof type, bytes;
    struct sockaddr_storage a = {0};
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &m))
        return false; /* no socket */
    if (listens)
        return true;
    bytes = sizeof a;
    if (type != SOCK_DGRAM || getsockname(fd, (struct sockaddr *)&a, &bytes))
        return false;
    return (a.ss_family == AF_INET && ((struct sockaddr_in *)&a)->sin_port) ||
           (a.ss_family == AF_INET6 && ((struct sockaddr_in6 *)&a)->sin6_port);
}

uint32_t check_link_listeners(int *out, uint32_t cap)
{
    uint32_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    if (!d)
        check_fail("/proc is not mounted, and the check needs it");
    for (struct dirent *e; (e = readdir(d)) && n < cap;) {
        const int fd = (int)strtol(e->d_name, NULL, 10);
        if (e->d_name[0] != '.' && fd != dirfd(d) && is_door(fd))
            out[n++] = fd;
    }
    closedir(d);
    return n;
}

/* --- the address that it listens on --- */

#define LOOPBACK "127.0.0.1" /* the bind_addr of check_end_up() */

/* The text of an IP address; false: the socket is of another family. */
static bool address_of(int fd, char out[INET6_ADDRSTRLEN])
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n))
        return false;
    const void *in = a.ss_family == AF_INET    ? (void *)&((struct sockaddr_in *)&a)->sin_addr
                     : a.ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)&a)->sin6_addr
                                               : NULL;
    return in && inet_ntop(a.ss_family, in, out, INET6_ADDRSTRLEN);
}

static bool check_listeners(const check_end *e)
{
    int fd[DOORS];
    bool any = false;
    const uint32_t n = check_link_listeners(fd, DOORS);
    for (uint32_t i = 0; i < n; i++) {
        char text[INET6_ADDRSTRLEN];
        if (!address_of(fd[i], text))
            continue;
        any = true;
        if (strcmp(text, LOOPBACK) != 0 && strcmp(text, "::ffff:" LOOPBACK) != 0)
            check_fail("bind_addr is " LOOPBACK ", and '%s' listens on %s%s; it listens on "
                       "bind_addr alone",
                       e->c->name, text,
                       !strcmp(text, "0.0.0.0") || !strcmp(text, "::") ? ", which is every address"
                                                                       : "");
    }
    return any;
}

static void listens(check_end *e)
{
    _Atomic uint32_t *any = e->arg;
    if (check_listeners(e))
        atomic_store(any, 1);
    weft_conn *c = check_end_begin(e, e->peer, 0);
    if (check_listeners(e))
        atomic_store(any, 1);
    check_end_ready(e, c);
    (void)!check_listeners(e);
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_listens(check_run *r)
{
    _Atomic uint32_t *any = check_shared(sizeof *any);
    const check_link_job job = {.ranks = 2, .seconds = 8, .run = listens, .arg = any};
    check_link_run(r, &job);
    if (!atomic_load(any))
        check_absent("no transport of the file opens a port");
}

/* --- strangers --- */

#define STRANGERS 24u
#define NOISE 64u

int check_link_stranger(int door, const void *says, size_t bytes)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    if (getsockname(door, (struct sockaddr *)&a, &n))
        return -1;
    const int fd = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        check_fail("no socket for a stranger");
    (void)!connect(fd, (struct sockaddr *)&a, n);
    if (bytes) {
        usleep(500);
        (void)!send(fd, says, bytes, MSG_NOSIGNAL);
    }
    return fd;
}

/* Says nothing, a little, or noise, and stays. */
static void stranger(int door, uint32_t k, uint64_t *seed)
{
    unsigned char noise[NOISE];
    for (uint32_t i = 0; i < NOISE; i++)
        noise[i] = (unsigned char)check_random(seed);
    (void)!check_link_stranger(door, noise, k % 3 == 0 ? 0 : k % 3 == 1 ? 3 : NOISE);
}

static void surround(const check_end *e)
{
    int fd[DOORS];
    uint64_t seed = e->run->seed + e->rank;
    const uint32_t n = check_link_listeners(fd, DOORS);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < STRANGERS; k++)
            stranger(fd[i], k, &seed);
    if (n)
        atomic_store((_Atomic uint32_t *)e->arg, 1);
}

/* The strangers are first at both ends. */
static void with_strangers(check_end *e)
{
    uint64_t done = 0;
    surround(e);
    check_rank_exchange(e->k, NULL, 0, NULL);
    weft_conn *c = check_end_begin(e, e->peer, 0);
    for (weft_status st; (st = CHECK_LINK(e, ready, c)) != WEFT_OK;) {
        if (st != WEFT_BUSY)
            check_fail("strangers dialled '%s' before the peer did, and ready() returned %s; they "
                       "are dropped: %s",
                       e->c->name, check_status(st), e->host.why);
        check_end_wait(e, "ready(), which strangers that dialled before the peer and said "
                          "nothing, or noise, must not hold up");
    }
    check_end_rounds(e, c, 3, 1000, &done, "after strangers had dialled,");
    check_rank_exchange(e->k, NULL, 0, NULL);
}

/* --- another key --- */

#define POLLS 300u

static void other_key(check_end *e)
{
    check_host_tls(&e->host, e->rank + 1);
    check_end_up(e);
    if (e->t->caps & WEFT_LINK_LOCAL)
        return; /* the kernel vouches for a peer of this machine */
    atomic_store((_Atomic uint32_t *)e->arg, 1);
    weft_conn *c = check_end_begin(e, e->peer, 0);
    for (uint32_t i = 0; i < POLLS; i++) {
        const weft_status st = CHECK_LINK(e, ready, c);
        if (st == WEFT_OK)
            check_fail("the peer has another key, and ready() of '%s' returned WEFT_OK; a peer is "
                       "authenticated with weft.host.tls/1",
                       e->c->name);
        if (st != WEFT_BUSY)
            break;
        (void)!CHECK_LINK(e, wait, e->link, 0, 1000, 0);
    }
    check_rank_exchange(e->k, NULL, 0, NULL);
}

void check_link_strangers(check_run *r)
{
    _Atomic uint32_t *any = check_shared(sizeof *any);
    const check_link_job keys = {.ranks = 2,
                                 .seconds = 6,
                                 .others_only = true,
                                 .not_up = true,
                                 .run = other_key,
                                 .arg = any};
    const check_link_job strangers = {.ranks = 2,
                                      .seconds = 4,
                                      .memory = 2000,
                                      .others_only = true,
                                      .run = with_strangers,
                                      .arg = any};
    check_link_run(r, &keys);
    check_link_run(r, &strangers);
    if (!atomic_load(any))
        check_absent("no transport of the file listens on a socket, or joins ranks of several "
                     "machines");
}
