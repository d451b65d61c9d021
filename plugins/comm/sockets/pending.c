/* pending.c: the list of pending connections, and the attempts of a dialer.
 *
 * An attempt that cannot be made, or that the other end closes, is repeated after a pause for as
 * long as the core calls ready(). The pauses are those of weft/handshake.h. */
#include "sockets.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { MATCH_US = 100000 }; /* between two looks for the peer of an accepted socket */

/* Keepalive finds a machine that has vanished after 25 s. On one machine nothing is congested: bbr,
 * the congestion control of many systems, would delay bytes there; reno, which every process may
 * choose, does not. */
static void set_options(const sockets_link *l, int fd, bool dialer)
{
    int on = 1, idle = 10, every = 5, times = 3;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    if (l->one_machine)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (l->send_buffer > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &l->send_buffer, sizeof l->send_buffer);
    if (dialer && l->receive_buffer > 0) /* an accepted socket has the listener's */
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &l->receive_buffer, sizeof l->receive_buffer);
}

sockets_pending *sockets_pending_add(sockets_link *l, int fd, bool dialer,
                                     const sockets_endpoint *other)
{
    sockets_pending *c = l->host->alloc(l->host->ctx, sizeof *c, 0);
    if (!c) {
        close(fd);
        return NULL;
    }
    if (!dialer)
        set_options(l, fd, false);
    c->io = (sockets_source){.kind = SOCKETS_PENDING, .fd = fd, .readable = true, .writable = true};
    c->dialer = dialer;
    c->phase = dialer ? SOCKETS_CONNECTING : SOCKETS_TLS;
    c->began_ms = l->setup_ms;
    c->next = l->pending;
    l->pending = c;
    l->unauthenticated += dialer ? 0 : 1;
    sockets_print(other, c->where, sizeof c->where);
    if (sockets_watch(l, &c->io, EPOLL_CTL_ADD) == WEFT_OK)
        return c;
    sockets_pending_drop(l, c);
    return NULL;
}

void sockets_authenticated(sockets_link *l, sockets_pending *c)
{
    if (!c->dialer && !c->authenticated)
        l->unauthenticated--;
    c->authenticated = true;
}

/* The descriptor is closed unless a peer has taken it. */
void sockets_pending_drop(sockets_link *l, sockets_pending *c)
{
    sockets_pending **at = &l->pending;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    sockets_authenticated(l, c);
    if (c->peer)
        c->peer->pending = NULL;
    if (c->tls)
        l->tls->end(c->tls);
    if (c->io.fd >= 0)
        close(c->io.fd);
    l->host->free(l->host->ctx, c);
}

void sockets_retry_later(sockets_peer *p, const char *why)
{
    char where[96];
    sockets_print(&p->to, where, sizeof where);
    snprintf(p->why, sizeof p->why, "cannot reach rank %u at %.80s: %.120s", p->rank, where, why);
    p->dial_at = sockets_now_us() + weft_handshake_pause_us(p->attempts);
    p->attempts++;
}

/* A socket that leaves by this rank's own address, from a port that the system chooses at
 * connect(). */
static weft_status open_socket(sockets_peer *p, const char *where, int *out)
{
    const sockets_link *l = p->link;
    sockets_endpoint from = l->bound;
    int on = 1, fd = socket(p->to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return sockets_fail(l->host, WEFT_IO, "%s cannot open a socket: %s", l->transport->name,
                            strerror(errno));
    set_options(l, fd, true);
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    *(from.any.sa_family == AF_INET6 ? &from.v6.sin6_port : &from.v4.sin_port) = 0;
    if (bind(fd, &from.any, sockets_length(&from)) != 0) {
        int why = errno;
        close(fd);
        return sockets_fail(l->host, WEFT_PEER, "cannot reach rank %u at %s: %s", p->rank, where,
                            strerror(why));
    }
    *out = fd;
    return WEFT_OK;
}

weft_status sockets_dial(sockets_peer *p)
{
    sockets_link *l = p->link;
    char where[96];
    int fd = -1;
    sockets_print(&p->to, where, sizeof where);
    if (l->bound.any.sa_family != p->to.any.sa_family)
        return sockets_fail(l->host, WEFT_USAGE,
                            "rank %u listens on %s, and this rank on an address of the other "
                            "family, IPv4 or IPv6: all ranks need addresses of one family",
                            p->rank, where);
    weft_status st = open_socket(p, where, &fd);
    if (st != WEFT_OK)
        return st;
    if (connect(fd, &p->to.any, sockets_length(&p->to)) != 0 && errno != EINPROGRESS) {
        sockets_retry_later(p, strerror(errno));
        close(fd);
        return WEFT_OK;
    }
    sockets_pending *c = sockets_pending_add(l, fd, true, &p->to);
    if (!c)
        return sockets_fail(l->host, WEFT_NO_MEMORY, "no memory for a connection");
    c->peer = p;
    c->rank = p->rank;
    c->channel = p->channel;
    p->pending = c;
    p->dial_at = sockets_now_us();
    return WEFT_OK;
}

void sockets_redial(sockets_link *l, uint64_t now_us)
{
    for (sockets_peer *p = l->peers; p; p = p->next) {
        bool waits = !p->up && p->broken == WEFT_OK && !p->pending && p->rank < l->rank;
        if (!waits || now_us < p->dial_at)
            continue;
        weft_status st = sockets_dial(p);
        if (st != WEFT_OK)
            (void)!sockets_break(p, st, "channel %u cannot be set up with rank %u again",
                                 p->channel, p->rank);
    }
}

uint32_t sockets_pause_us(const sockets_link *l)
{
    uint32_t shortest = (uint32_t)weft_handshake_pause_us(0);
    if (l->settled)
        return UINT32_MAX;
    if (l->unauthenticated == SOCKETS_UNAUTHENTICATED)
        return shortest;
    for (const sockets_peer *p = l->peers; p; p = p->next)
        if (!p->up && !p->pending && p->rank < l->rank)
            return shortest;
    return l->pending ? MATCH_US : UINT32_MAX;
}
