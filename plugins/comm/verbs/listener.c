/* listener.c: the socket on which peers dial their side channels, and who is let wait at it.
 *
 * Whoever can reach the port may be a stranger, so what a socket can take before it has proved
 * itself is small and fixed: one of PLACES places, LEAN bytes of the kernel's memory, and of ours
 * what the host's TLS needs after a whole ClientHello has come. When all places are taken, the
 * oldest gives way as weft_handshake_evictable() says, and a peer that had to dials again. The
 * times are those of the link's setup clock, which stands still while nobody looks.
 *
 * The socket listens while a connection waits for its peer. Once all are up it is closed, with
 * whoever still waits; a later connection opens it again on the same port. */
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    BACKLOG = 128, /* sockets that the kernel holds for us */
    LEAN = 4096,   /* receive buffer of a stranger; the kernel doubles it */
    BUF_LOCK = 72, /* SO_BUF_LOCK of Linux 5.14; older headers lack it */
};

/* Little of the kernel's memory. A side channel carries no payload, so it stays with that. Kernels
 * before 5.14 keep their default, as in the tcp transport. */
static void be_lean(int fd)
{
    int small = LEAN, none = 0;
    if (setsockopt(fd, SOL_SOCKET, BUF_LOCK, &none, sizeof none) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0)
        (void)setsockopt(fd, SOL_SOCKET, BUF_LOCK, &none, sizeof none);
}

weft_status verbs_open_listener(weft_link *l)
{
    char where[96];
    int on = 1, fd = socket(l->bound.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return verbs_fail(l->host, WEFT_IO, "verbs cannot open a socket: %s", strerror(errno));
    l->listener = (source){.kind = SOURCE_LISTENER, .fd = fd};
    l->listening = true;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* the port, a second time */
    be_lean(fd);
    verbs_print(&l->bound, where, sizeof where);
    if (bind(fd, &l->bound.any, verbs_length(&l->bound)) != 0)
        return verbs_fail(l->host, WEFT_USAGE, "verbs cannot listen on %s: %s", where,
                          strerror(errno));
    socklen_t size = sizeof l->bound;
    if (listen(fd, BACKLOG) != 0 || getsockname(fd, &l->bound.any, &size) != 0)
        return verbs_fail(l->host, WEFT_IO, "verbs cannot listen: %s", strerror(errno));
    return verbs_watch(l, &l->listener, EPOLL_CTL_ADD);
}

/* Connections that wait for their peer to dial; `open`: those alone that no socket is matched to.
 */
static uint32_t awaited(const weft_link *l, bool open)
{
    uint32_t n = 0;
    for (const weft_conn *c = l->conns; c; c = c->next)
        n += !c->up && c->broken == WEFT_OK && c->peer > l->rank && !(open && c->greeting);
    return n;
}

/* Without a goodbye, so that the kernel keeps nothing for it either. */
static void turn_away(weft_link *l, greeting *g)
{
    struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(g->io.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    verbs_drop_handshake(l, g);
}

void verbs_close_listener(weft_link *l)
{
    if (l->listener.fd < 0)
        return;
    close(l->listener.fd);
    l->listener.fd = -1;
    l->listener.readable = l->listening = false;
    for (greeting *g = l->greetings, *next; g; g = next) {
        next = g->next;
        if (!g->dialer && !g->conn)
            turn_away(l, g);
    }
    if (l->turned_away > 0) {
        char text[WHY];
        snprintf(text, sizeof text,
                 "%u connections to the port of this rank gave way to others before they had "
                 "proved to be of this job",
                 l->turned_away);
        l->host->log(l->host->ctx, WEFT_LOG_INFO, text);
    }
    l->turned_away = 0;
}

weft_status verbs_listen(weft_link *l)
{
    if (awaited(l, false) == 0)
        return WEFT_OK;
    return l->listener.fd < 0 ? verbs_open_listener(l) : WEFT_OK;
}

void verbs_settle(weft_link *l)
{
    l->settled = true;
    for (const weft_conn *c = l->conns; c; c = c->next)
        l->settled &= c->up || c->broken != WEFT_OK;
    if (awaited(l, false) == 0)
        verbs_close_listener(l);
    bool wanted = l->strangers < PLACES;
    if (l->listener.fd < 0 || wanted == l->listening)
        return;
    struct epoll_event e = {.events = wanted ? EPOLLIN : 0, .data.ptr = &l->listener};
    if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->listener.fd, &e) == 0)
        l->listening = wanted;
}

/* Who gives way; NULL: nobody does yet. */
static greeting *oldest(weft_link *l)
{
    greeting *idle = NULL, *busy = NULL;
    uint32_t shaking = 0;
    for (greeting *g = l->greetings; g; g = g->next) {
        if (g->dialer || g->proved)
            continue;
        greeting **at = g->io.heard ? &busy : &idle;
        shaking += g->io.heard;
        if (!(*at) || g->began < (*at)->began)
            *at = g;
    }
    if (idle && weft_handshake_evictable(l->clock - idle->began, 0, 0))
        return idle;
    const int crowded = shaking > awaited(l, true);
    return busy && weft_handshake_evictable(l->clock - busy->began, 1, crowded) ? busy : NULL;
}

void verbs_accept(weft_link *l)
{
    l->listener.readable = false; /* level-triggered: it says so again */
    for (uint32_t i = 0; i < BACKLOG && l->listener.fd >= 0; i++) {
        greeting *old = l->strangers < PLACES ? NULL : oldest(l);
        if (l->strangers >= PLACES && !old)
            return;
        endpoint from;
        socklen_t size = sizeof from;
        int fd = accept4(l->listener.fd, &from.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return; /* none waits, or no descriptor is left: those who wait stay in the backlog */
        if (old) {
            l->turned_away++;
            turn_away(l, old);
        }
        verbs_accepted(l, fd, &from);
    }
}
