/* setup.c: how the ranks of a communicator meet, and the plugin.
 *
 * A communicator has one socket to each peer. Rank r dials the ranks above it. Each rank listens at
 * an address that the kernel chooses, and publishes it through weft.host.kv/1 under the
 * communicator's random id. Who dials sends that id and its rank first; the kernel vouches for the
 * user at the other end. */
#define _GNU_SOURCE
#include "hostcoll.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct greeting {
    unsigned char id[ID];
    uint32_t rank;
} greeting;

weft_status hostcoll_fail(const weft_host *h, weft_status code, const char *what)
{
    return h->fail(h->ctx, code, what);
}

weft_status hostcoll_fail_errno(const weft_host *h, weft_status code, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    return h->fail(h->ctx, code, text);
}

static const weft_host_kv *kv_of(const weft_host *h)
{
    return h->iface(h->ctx, "weft.host.kv/1");
}

static weft_status probe(void *m, const weft_conf *conf, uint32_t caps, int32_t *score)
{
    const weft_host *h = ((module *)m)->host;
    (void)conf;
    *score = caps & WEFT_DEV_HOST_MEMORY ? 4 : 0; /* naive: any link is better */
    if (!*score)
        (void)!hostcoll_fail(h, WEFT_UNSUPPORTED, "it works on host memory only");
    return WEFT_OK;
}

static weft_status make_id(void *m, const weft_conf *conf, void *out, uint64_t *bytes)
{
    (void)conf;
    if (*bytes < ID || getrandom(out, ID, 0) != ID)
        return hostcoll_fail_errno(((module *)m)->host, WEFT_IO, "no random bytes");
    *bytes = ID;
    return WEFT_OK;
}

/* "acme.hostcoll" needs no prefix: keys of a plugin are its own. */
static void key_of(const weft_comm *c, uint32_t rank, char key[64])
{
    int n = 0;
    for (int i = 0; i < ID; i++)
        n += snprintf(key + n, 64 - (size_t)n, "%02x", c->id[i]);
    snprintf(key + n, 64 - (size_t)n, ".%u", rank);
}

static void close_comm(weft_comm *c)
{
    if (!c)
        return;
    for (uint32_t r = 0; r < RANKS; r++) {
        if (c->peer[r].fd >= 0)
            close(c->peer[r].fd);
        if (c->guest[r] >= 0)
            close(c->guest[r]);
    }
    if (c->listener >= 0)
        close(c->listener);
    c->host->free(c->host->ctx, c->pieces);
    c->host->free(c->host->ctx, c);
}

/* Listen, and say where. */
static weft_status listen_here(weft_comm *c)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = sizeof a;
    char key[64];
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->listener < 0 || bind(c->listener, (struct sockaddr *)&a, sizeof a.sun_family) ||
        getsockname(c->listener, (struct sockaddr *)&a, &n) || listen(c->listener, RANKS))
        return hostcoll_fail_errno(c->host, WEFT_IO, "cannot listen on a Unix socket");
    key_of(c, c->me, key);
    return kv_of(c->host)->put(kv_of(c->host)->ctx, key, &a, n);
}

static weft_status open_comm(void *m, const weft_coll_args *a, weft_comm **out)
{
    const weft_host *h = ((module *)m)->host;
    weft_status st = weft_check_args(h, a, sizeof *a, 0);
    if (st != WEFT_OK)
        return st;
    if (a->ranks > RANKS || a->parent || a->stream || a->id_bytes != ID || !kv_of(h))
        return hostcoll_fail(h, WEFT_UNSUPPORTED,
                             "acme.hostcoll joins at most 64 ranks, on host memory, and needs "
                             "weft.host.kv/1 of the program");
    weft_comm *c = weft_new(h, sizeof *c, &st);
    if (!c)
        return st;
    *c = (weft_comm){.host = h, .module = m, .me = a->rank, .n = a->ranks, .listener = -1};
    memcpy(c->id, a->id, ID);
    memcpy(c->members, a->members, a->ranks * sizeof *c->members);
    c->pieces = weft_new(h, (uint64_t)c->n * PIECE, &st);
    for (uint32_t r = 0; r < RANKS; r++) {
        c->peer[r] =
            (peer){.fd = -1, .piece = r < c->n && c->pieces ? c->pieces + r * PIECE : NULL};
        c->guest[r] = -1;
    }
    if (st == WEFT_OK)
        st = listen_here(c);
    if (st == WEFT_OK)
        *out = c;
    else
        close_comm(c);
    return st;
}

static int same_user(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) && who.uid == geteuid();
}

/* Dial rank r once; the greeting is small enough to go out whole. */
static weft_status dial(weft_comm *c, uint32_t r)
{
    greeting g = {.rank = c->me};
    struct sockaddr_un a;
    uint64_t n = sizeof a;
    char key[64];
    memcpy(g.id, c->id, ID);
    key_of(c, r, key);
    weft_status st = kv_of(c->host)->get(kv_of(c->host)->ctx, key, &a, &n);
    if (st != WEFT_OK)
        return st;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, (socklen_t)n) || !same_user(fd) ||
        send(fd, &g, sizeof g, MSG_NOSIGNAL) != sizeof g) {
        st = hostcoll_fail_errno(c->host, WEFT_PEER, "cannot reach a rank of the group");
        if (fd >= 0)
            close(fd);
        return st;
    }
    c->peer[r].fd = fd;
    return WEFT_OK;
}

/* Accept, and learn who it is; whoever is not of this communicator is closed. */
static void receive_guests(weft_comm *c)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        greeting g;
        if (c->guest[i] < 0)
            c->guest[i] = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
        if (c->guest[i] < 0)
            continue;
        const ssize_t n = recv(c->guest[i], &g, sizeof g, MSG_DONTWAIT | MSG_PEEK);
        if (n > 0 && n < (ssize_t)sizeof g)
            continue;
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n == sizeof g && same_user(c->guest[i]) && !memcmp(g.id, c->id, ID) && g.rank < c->me &&
            c->peer[g.rank].fd < 0 && recv(c->guest[i], &g, sizeof g, 0) == sizeof g)
            c->peer[g.rank].fd = c->guest[i];
        else
            close(c->guest[i]);
        c->guest[i] = -1;
    }
}

static weft_status ready(weft_comm *c)
{
    uint32_t up = 0;
    if (c->listener >= 0)
        receive_guests(c);
    for (uint32_t r = 0; r < c->n; r++) {
        weft_status st = r > c->me && c->peer[r].fd < 0 ? dial(c, r) : WEFT_OK;
        if (st != WEFT_OK)
            return st;
        up += r == c->me || c->peer[r].fd >= 0;
    }
    if (up < c->n)
        return WEFT_BUSY;
    if (c->listener >= 0)
        close(c->listener);
    c->listener = -1;
    return WEFT_OK;
}

static weft_status health(weft_comm *c)
{
    return c->failed ? hostcoll_fail(c->host, WEFT_PEER, "a peer has closed its connection")
                     : WEFT_OK;
}

static void abort_comm(weft_comm *c)
{
    atomic_store(&c->aborted, 1);
    for (uint32_t r = 0; r < c->n; r++)
        if (c->peer[r].fd >= 0)
            shutdown(c->peer[r].fd, SHUT_RDWR);
}

static weft_status open_module(const weft_host *host, void **out)
{
    weft_status st = WEFT_OK;
    module *m = weft_new(host, sizeof *m, &st);
    if (m) {
        m->host = host;
        *out = m;
    }
    return st;
}

static void close_module(void *m)
{
    if (m)
        ((module *)m)->host->free(((module *)m)->host->ctx, m);
}

static const weft_coll_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_COLL_HOST,
    .probe = probe,
    .id = make_id,
    .open = open_comm,
    .ready = ready,
    .close = close_comm,
    .begin = hostcoll_begin,
    .end = hostcoll_end,
    .call = hostcoll_call,
    .health = health,
    .abort = abort_comm,
    .test = hostcoll_test,
    .supports = hostcoll_supports,
};
static const weft_component component = {
    sizeof component, 0,   "weft.coll/1", "acme.hostcoll", "collectives over Unix sockets", NULL,
    &table,           NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.hostcoll", "1", "", components, open_module, close_module);
