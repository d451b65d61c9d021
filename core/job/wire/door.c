/* job/wire/door.c: see door.h. */
#define _GNU_SOURCE
#include "job/wire/door.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time/awake.h"

/* --- connections --- */

void job_peer_drop(job_peer *p)
{
    job_wire_close(&p->w); /* closing the descriptor removes it from epoll */
    p->interest = 0;
}

void job_peer_watch(int epoll_fd, job_peer *p)
{
    if (p->w.fd < 0)
        return;
    bool writes = (p->w.tls && job_tls_wants(p->w.tls) == 2) || job_wire_unsent(&p->w);
    /* A stranger's bytes may stay in the socket until its ClientHello is whole: edge-triggered. */
    uint32_t want = EPOLLIN | (writes ? EPOLLOUT : 0) | (p->admitted ? 0 : (uint32_t)EPOLLET);
    if (want == p->interest)
        return;
    struct epoll_event e = {.events = want, .data.ptr = p};
    int op = p->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (!epoll_ctl(epoll_fd, op, p->w.fd, &e))
        p->interest = want;
}

/* --- the door --- */

static job_peer *new_place(void)
{
    job_peer *p = mem_alloc(sizeof *p);
    p->w.fd = -1;
    return p;
}

void job_door_prepare(job_door *d, job_tls_context *tls, const uint8_t *key, const char *sealed)
{
    *d = (job_door){.epoll_fd = -1, .tls = tls, .key = key, .sealed = sealed};
    for (int i = 0; i < STRANGERS_MAX; i++)
        d->strangers[i] = new_place();
}

void job_door_close(job_door *d)
{
    for (int i = 0; i < STRANGERS_MAX; i++)
        if (d->strangers[i])
            job_peer_drop(d->strangers[i]);
    while (d->sockets)
        close(d->listens[--d->sockets]);
}

void job_door_free(job_door *d)
{
    job_door_close(d);
    for (int i = 0; i < STRANGERS_MAX; i++)
        free(d->strangers[i]);
    memset(d->strangers, 0, sizeof d->strangers);
}

weft_status job_door_watch(job_door *d)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = d};
    for (uint32_t i = 0; i < d->sockets; i++)
        if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, d->listens[i], &e))
            return err_fail_errno(WEFT_IO, "the listening descriptor %d cannot be watched",
                                  d->listens[i]);
    d->listening = true;
    return WEFT_OK;
}

static void listen_on(job_door *d, bool on)
{
    struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.ptr = d};
    bool done = on != d->listening;
    for (uint32_t i = 0; i < d->sockets && done; i++)
        done = !epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, d->listens[i], &e);
    d->listening = done ? on : d->listening;
}

/* A free place, or that of the oldest stranger without a finished handshake; NULL: all are too
 * young. */
static job_peer *find_place(job_door *d, uint64_t now)
{
    job_peer *oldest = NULL;
    for (int i = 0; i < STRANGERS_MAX; i++) {
        job_peer *p = d->strangers[i];
        if (p->w.fd < 0)
            return p;
        if (!(p->w.tls && job_tls_shaken(p->w.tls)) && (!oldest || p->since < oldest->since))
            oldest = p;
    }
    return oldest && now - oldest->since >= STRANGER_AGE ? oldest : NULL;
}

static void let_in(job_door *d, int socket)
{
    for (;;) {
        uint64_t now = awake_ms();
        job_peer *p = find_place(d, now);
        int fd = p ? accept4(socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;
        if (!p || (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED))
            listen_on(d, false); /* the next tick checks again */
        if (fd < 0)
            return;
        if (p->w.fd >= 0)
            d->turned_away++;
        job_peer_drop(p);
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        job_wire_hold(&p->w, fd);
        p->since = now;
        if (job_handshake_send(&p->hail, fd, d->sealed) != WEFT_OK) {
            job_peer_drop(p);
            continue;
        }
        job_peer_watch(d->epoll_fd, p);
    }
}

void job_door_let_in(job_door *d)
{
    for (uint32_t i = 0; i < d->sockets; i++)
        let_in(d, d->listens[i]);
}

void job_door_turn(job_door *d)
{
    const uint64_t now = awake_ms();
    if (!d->sockets)
        return;
    if (!d->listening && find_place(d, now))
        listen_on(d, true);
    if (now - d->ticked < STRANGER_AGE)
        return;
    d->ticked = now;
    for (int i = 0; i < STRANGERS_MAX; i++) {
        job_peer *p = d->strangers[i];
        if (p->w.fd >= 0 && now - p->since >= STRANGER_MS) {
            d->turned_away++;
            job_peer_drop(p);
        }
    }
}

int job_door_place(const job_door *d, const job_peer *p)
{
    for (int i = 0; i < STRANGERS_MAX; i++)
        if (d->strangers[i] == p)
            return p->w.fd >= 0 ? i : -1;
    return -1;
}

static void name_peer(const job_peer *p, char *out, size_t bytes)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getpeername(p->w.fd, (struct sockaddr *)&a, &n) ||
        getnameinfo((struct sockaddr *)&a, n, out, (socklen_t)bytes, NULL, 0, NI_NUMERICHOST))
        out[0] = 0;
}

void job_door_turn_away(job_door *d, int place, const char *why)
{
    d->turned_away++;
    log_line(WEFT_LOG_DEBUG, "a connection to this rank was dropped: %s", why);
    job_peer_drop(d->strangers[place]);
}

weft_status job_door_advance(job_door *d, int place, job_wire_frame *out)
{
    job_peer *p = d->strangers[place];
    weft_status st = WEFT_OK;
    if (!p->w.tls) /* the first bytes have arrived: now allocate a session */
        st = job_handshake_open(&p->hail, d->key, d->tls, true, &p->w);
    if (st == WEFT_OK)
        st = job_tls_handshake(p->w.tls);
    if (st == WEFT_OK)
        st = job_wire_take(&p->w, out);
    if (st == WEFT_BUSY)
        job_peer_watch(d->epoll_fd, p);
    if (st == WEFT_OK || st == WEFT_BUSY)
        return st;
    if (!(p->w.tls && job_tls_lost(p->w.tls)))
        name_peer(p, d->last_away, sizeof d->last_away);
    job_door_turn_away(d, place, err_text());
    return st;
}

job_peer *job_door_admit(job_door *d, int place, uint32_t rank, job_peer *spare)
{
    job_peer *p = d->strangers[place];
    if (spare)
        *spare = (job_peer){.w.fd = -1};
    d->strangers[place] = spare ? spare : new_place();
    p->admitted = true;
    p->rank = rank;
    return p;
}
