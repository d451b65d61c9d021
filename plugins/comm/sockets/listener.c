/* listener.c: the listening socket, and how many unauthenticated sockets it admits.
 *
 * Anyone who can reach the port can connect, so an unauthenticated socket gets fixed resources: one
 * of SOCKETS_UNAUTHENTICATED places, a receive buffer of the kernel's, and of this process what the
 * host's TLS needs once a whole ClientHello has come. When all places are taken, the oldest socket
 * is evicted as weft_handshake_evictable() says; a peer that is evicted dials again. Ages count on
 * setup_ms.
 *
 * With `small_buffers` the kernel's buffer is small, too. Sockets that carry payload keep the
 * default: a small buffer stays with the connection, since the kernel grows buffers by what came
 * before, and steps over tcp took 2 to 3 % longer.
 *
 * The socket listens while some peer has still to dial this rank. Once all are up it is closed,
 * with the sockets that are not matched; a later peer opens it again on the same port. */
#include "sockets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    BACKLOG = 128,       /* sockets that the kernel holds until they are accepted */
    SMALL_BUFFER = 4096, /* bytes; the kernel doubles it */
    BUF_LOCK = 72,       /* SO_BUF_LOCK of Linux 5.14; older headers lack it */
};

/* Sets the buffer and lets the kernel adjust it again. Kernels before 5.14 keep their default. */
static void make_buffer_small(int fd)
{
    int small = SMALL_BUFFER, none = 0;
    if (setsockopt(fd, SOL_SOCKET, BUF_LOCK, &none, sizeof none) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0)
        (void)setsockopt(fd, SOL_SOCKET, BUF_LOCK, &none, sizeof none);
}

static weft_status open_listener(sockets_link *l)
{
    char where[96];
    const char *name = l->transport->name;
    int on = 1, fd = socket(l->bound.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return sockets_fail(l->host, WEFT_IO, "%s cannot open a socket: %s", name, strerror(errno));
    l->listener = (sockets_source){.kind = SOCKETS_LISTENER, .fd = fd};
    l->admitting = true;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* to open the port again */
    if (l->transport->small_buffers)
        make_buffer_small(fd);
    if (l->receive_buffer > 0) /* before listen(), which fixes the window scale */
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &l->receive_buffer, sizeof l->receive_buffer);
    sockets_print(&l->bound, where, sizeof where);
    if (bind(fd, &l->bound.any, sockets_length(&l->bound)) != 0)
        return sockets_fail(l->host, WEFT_USAGE, "%s cannot listen on %s: %s", name, where,
                            strerror(errno));
    socklen_t size = sizeof l->bound;
    if (listen(fd, BACKLOG) != 0 || getsockname(fd, &l->bound.any, &size) != 0)
        return sockets_fail(l->host, WEFT_IO, "%s cannot listen on %s: %s", name, where,
                            strerror(errno));
    return sockets_watch(l, &l->listener, EPOLL_CTL_ADD);
}

weft_status sockets_listen(sockets_link *l)
{
    return l->listener.fd < 0 ? open_listener(l) : WEFT_OK;
}

/* Peers that have still to dial this rank; `unmatched`: only those without a pending connection. */
static uint32_t count_awaited(const sockets_link *l, bool unmatched)
{
    uint32_t n = 0;
    for (const sockets_peer *p = l->peers; p; p = p->next)
        n += !p->up && p->broken == WEFT_OK && p->rank > l->rank && !(unmatched && p->pending);
    return n;
}

/* By a reset, so that the kernel keeps nothing for the socket either. */
static void evict(sockets_link *l, sockets_pending *c)
{
    struct linger reset = {.l_onoff = 1};
    (void)setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    sockets_pending_drop(l, c);
}

static void close_listener(sockets_link *l)
{
    if (l->listener.fd < 0)
        return;
    close(l->listener.fd);
    l->listener.fd = -1;
    l->listener.readable = l->admitting = false;
    for (sockets_pending *c = l->pending, *next; c; c = next) {
        next = c->next;
        if (!c->dialer && !c->peer)
            evict(l, c);
    }
    if (l->evicted > 0) {
        char text[SOCKETS_TEXT];
        snprintf(text, sizeof text,
                 "%u connections to the port of this rank were closed to admit others, before they "
                 "had authenticated",
                 l->evicted);
        l->host->log(l->host->ctx, WEFT_LOG_INFO, text);
    }
    l->evicted = 0;
}

void sockets_pause_listener(sockets_link *l)
{
    l->settled = true;
    for (const sockets_peer *p = l->peers; p; p = p->next)
        l->settled &= p->up || p->broken != WEFT_OK;
    if (count_awaited(l, false) == 0)
        close_listener(l);
    bool wanted = l->unauthenticated < SOCKETS_UNAUTHENTICATED;
    if (l->listener.fd < 0 || wanted == l->admitting)
        return;
    struct epoll_event e = {.events = wanted ? EPOLLIN : 0, .data.ptr = &l->listener};
    if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->listener.fd, &e) == 0)
        l->admitting = wanted;
}

/* The socket to evict, or NULL. A silent one goes before one in the middle of its handshake. */
static sockets_pending *find_evictable(sockets_link *l)
{
    sockets_pending *silent = NULL, *busy = NULL;
    uint32_t n_busy = 0;
    for (sockets_pending *c = l->pending; c; c = c->next) {
        if (c->dialer || c->authenticated)
            continue;
        sockets_pending **oldest = c->io.received ? &busy : &silent;
        n_busy += c->io.received;
        if (!(*oldest) || c->began_ms < (*oldest)->began_ms)
            *oldest = c;
    }
    if (silent && weft_handshake_evictable(l->setup_ms - silent->began_ms, 0, 0))
        return silent;
    const int crowded = n_busy > count_awaited(l, true);
    return busy && weft_handshake_evictable(l->setup_ms - busy->began_ms, 1, crowded) ? busy : NULL;
}

void sockets_accept(sockets_link *l)
{
    l->listener.readable = false; /* level-triggered: reported again */
    for (uint32_t i = 0; i < BACKLOG && l->listener.fd >= 0; i++) {
        bool full = l->unauthenticated >= SOCKETS_UNAUTHENTICATED;
        sockets_pending *old = full ? find_evictable(l) : NULL;
        if (full && !old)
            return;
        sockets_endpoint from;
        socklen_t size = sizeof from;
        int fd = accept4(l->listener.fd, &from.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return; /* none waits, or no descriptor is left: the others stay in the backlog */
        if (old) {
            l->evicted++;
            evict(l, old);
        }
        (void)sockets_pending_add(l, fd, false, &from);
    }
}
