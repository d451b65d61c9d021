/* handshake.c: the steps that turn a pending connection into an authenticated one.
 *
 *   dialer (the higher rank)                listener (the lower rank)
 *   connect                                 accept
 *   TLS 1.3 handshake with the job's key, label "weft.TRANSPORT JOB RANK-THAT-LISTENS"
 *   inside TLS: hello, extra bytes      ->  waits until the core has asked for this peer; join()
 *                                       <-  inside TLS: answer, extra bytes; or why not
 *   join(); one byte                    ->  the connection is up
 *
 * Nothing that arrives before the TLS handshake is read as a message. Unless the link keeps its TLS
 * sessions, both ends close theirs before the last byte, so that neither can have read payload as
 * TLS. The extra bytes of verbs are its queue pairs: both ends know each other's before either
 * sends. */
#include "sockets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { WELCOME = 0, LOGGED_FAILURES = 8, REFUSED_MS = 2000 };

static uint32_t message_bytes(const sockets_link *l)
{
    return WEFT_HANDSHAKE_BYTES + l->transport->extra;
}

/* Write or read `bytes` of the message, inside TLS, or bare once the session is closed. */
static weft_status transfer(sockets_pending *c, const weft_host_tls *tls, bool out, uint32_t bytes)
{
    while (c->moved < bytes) {
        uint8_t *at = c->message + c->moved;
        uint64_t left = bytes - c->moved, done = 0;
        weft_status st = WEFT_OK;
        if (c->tls) {
            st = out ? tls->write(c->tls, at, left, &done) : tls->read(c->tls, at, left, &done);
        } else {
            ssize_t n = out ? send(c->io.fd, at, left, MSG_NOSIGNAL) : recv(c->io.fd, at, left, 0);
            if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return WEFT_BUSY;
            st = n <= 0 ? WEFT_PEER : WEFT_OK;
            done = n > 0 ? (uint64_t)n : 0;
        }
        if (st != WEFT_OK)
            return st;
        c->moved += (uint32_t)done;
    }
    c->moved = 0;
    return WEFT_OK;
}

/* Another attempt would fail alike. */
static weft_status fail_finally(sockets_pending *c, weft_status code, const char *why)
{
    c->final = true;
    snprintf(c->why, sizeof c->why, "%s", why);
    return code;
}

static void write_message(const sockets_link *l, sockets_pending *c, uint8_t code)
{
    const sockets_transport *t = l->transport;
    const weft_handshake h = {code, l->rank, c->rank, c->channel};
    memset(c->message, 0, sizeof c->message);
    weft_handshake_write(c->message, t->message_magic, &h);
    if (t->extra > 0 && c->peer)
        t->describe(c->peer, c->message + WEFT_HANDSHAKE_BYTES);
}

static void write_answer(const sockets_link *l, sockets_pending *c, uint8_t code)
{
    write_message(l, c, code);
    c->phase = SOCKETS_ANSWERING;
}

static weft_status join(const sockets_link *l, sockets_pending *c)
{
    weft_status st = WEFT_OK;
    if (l->transport->extra > 0)
        st = l->transport->join(c->peer, c->message + WEFT_HANDSHAKE_BYTES);
    c->final |= st != WEFT_OK;
    return st;
}

/* Nobody listens at the peer's port. A peer whose other connections are all up listens again once
 * it has called connect(), so only one that stays away is gone. */
static bool is_gone(sockets_peer *p)
{
    if (!p->refused_at)
        p->refused_at = p->link->setup_ms;
    return p->link->setup_ms - p->refused_at > REFUSED_MS;
}

static weft_status step_connecting(sockets_link *l, sockets_pending *c)
{
    (void)l;
    int why = 0;
    socklen_t size = sizeof why;
    sockets_endpoint other;
    socklen_t length = sizeof other;
    if (getsockopt(c->io.fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
        why = errno;
    if (why != 0) {
        snprintf(c->why, sizeof c->why, "%s", strerror(why));
        if (why == ECONNREFUSED)
            c->final = is_gone(c->peer);
        return WEFT_PEER;
    }
    if (getpeername(c->io.fd, &other.any, &length) != 0)
        return errno == ENOTCONN ? WEFT_BUSY : WEFT_PEER;
    c->phase = SOCKETS_TLS;
    return WEFT_OK;
}

static weft_status step_tls(sockets_link *l, sockets_pending *c)
{
    char label[192];
    weft_status st = WEFT_OK;
    if (!c->tls) {
        weft_handshake_label(label, sizeof label, l->transport->name, l->job,
                             c->dialer ? c->rank : l->rank);
        st = l->tls->start(l->tls->ctx, c->io.fd, c->dialer ? 0 : 1, label, &c->tls);
    }
    if (st == WEFT_OK)
        st = l->tls->handshake(c->tls);
    if (st != WEFT_OK && st != WEFT_BUSY && st != WEFT_IO) /* WEFT_IO: the connection ended */
        return fail_finally(c, st, "TLS could not verify that both ranks are of one job");
    if (st != WEFT_OK)
        return st;
    c->phase = SOCKETS_HELLO;
    if (c->dialer)
        write_message(l, c, l->hello_code);
    return WEFT_OK;
}

static weft_status step_hello(sockets_link *l, sockets_pending *c)
{
    const sockets_transport *t = l->transport;
    weft_status st = transfer(c, l->tls, c->dialer, message_bytes(l));
    if (st != WEFT_OK)
        return st;
    c->phase = SOCKETS_ANSWERING;
    if (c->dialer)
        return WEFT_OK;
    weft_handshake hello;
    if (weft_handshake_read(c->message, t->message_magic, &hello) != WEFT_OK)
        return fail_finally(c, WEFT_DATA, "it speaks another protocol");
    c->rank = hello.rank;
    c->channel = hello.channel;
    sockets_authenticated(l, c);
    c->phase = SOCKETS_MATCHING;
    if (!weft_handshake_expected(&hello, l->rank, l->ranks))
        write_answer(l, c, t->code_unexpected);
    else if (t->code_options != 0 && hello.code != l->hello_code)
        write_answer(l, c, t->code_options);
    return WEFT_OK;
}

static weft_status step_matching(sockets_link *l, sockets_pending *c)
{
    for (sockets_peer *p = l->peers; p; p = p->next)
        if (p->rank == c->rank && p->channel == c->channel && !p->up && !p->pending &&
            p->broken == WEFT_OK) {
            c->peer = p;
            p->pending = c;
            weft_status st = join(l, c);
            if (st == WEFT_OK)
                write_answer(l, c, WELCOME);
            return st;
        }
    return WEFT_BUSY;
}

static weft_status step_answering(sockets_link *l, sockets_pending *c)
{
    const sockets_transport *t = l->transport;
    weft_status st = transfer(c, l->tls, !c->dialer, message_bytes(l));
    if (st != WEFT_OK)
        return st;
    weft_handshake answer;
    if (weft_handshake_read(c->message, t->message_magic, &answer) != WEFT_OK)
        return fail_finally(c, WEFT_DATA, "it speaks another protocol");
    if (t->code_options != 0 && answer.code == t->code_options)
        return fail_finally(c, WEFT_USAGE, t->options_differ);
    if (answer.code != WELCOME)
        return fail_finally(c, WEFT_PEER, "it expects no such rank");
    if (c->dialer)
        st = join(l, c);
    if (st != WEFT_OK)
        return st;
    if (!l->keep_tls) {
        l->tls->end(c->tls);
        c->tls = NULL;
    }
    c->phase = SOCKETS_CONFIRMING;
    return WEFT_OK;
}

/* The peer takes the descriptor. An abort that comes meanwhile ends the stream, too. */
static void hand_over(sockets_link *l, sockets_pending *c)
{
    sockets_peer *p = c->peer;
    sockets_source io = {.kind = SOCKETS_PEER, .fd = c->io.fd, .readable = true, .writable = true};
    p->tls = c->tls;
    c->io.fd = -1;
    c->tls = NULL;
    sockets_pending_drop(l, c);
    pthread_mutex_lock(&l->lock);
    p->io = io;
    if (atomic_load(&l->aborted))
        shutdown(io.fd, SHUT_RDWR);
    pthread_mutex_unlock(&l->lock);
    p->up = true;
    p->why[0] = '\0';
    if (sockets_watch(l, &p->io, EPOLL_CTL_MOD) != WEFT_OK)
        (void)!sockets_break(p, WEFT_IO, "the socket to rank %u cannot be watched", p->rank);
}

static weft_status step_confirming(sockets_link *l, sockets_pending *c)
{
    weft_status st = transfer(c, l->tls, c->dialer, 1);
    if (st != WEFT_OK)
        return st;
    hand_over(l, c);
    return WEFT_BUSY; /* `c` is freed: no step follows */
}

static weft_status (*const steps[])(sockets_link *, sockets_pending *) = {
    [SOCKETS_CONNECTING] = step_connecting, [SOCKETS_TLS] = step_tls,
    [SOCKETS_HELLO] = step_hello,           [SOCKETS_MATCHING] = step_matching,
    [SOCKETS_ANSWERING] = step_answering,   [SOCKETS_CONFIRMING] = step_confirming,
};

/* A final failure breaks the peer, unless join() has done so. After any other, the dialer tries
 * again. Of sockets that belong to no peer, the log reports the first few. */
static void end_attempt(sockets_link *l, sockets_pending *c, weft_status st)
{
    char text[SOCKETS_TEXT + 128];
    sockets_peer *p = c->peer;
    const char *why = c->why[0] != '\0' ? c->why : "it closed the connection";
    if (p && c->final) {
        (void)!sockets_break(p, st, "cannot set up channel %u with rank %u at %s: %s", c->channel,
                             c->rank, c->where, why);
    } else if (p && c->dialer) {
        sockets_retry_later(p, why);
    } else if (!p && l->failed++ < LOGGED_FAILURES) {
        snprintf(text, sizeof text, "dropped a connection from %s: %s", c->where, why);
        l->host->log(l->host->ctx, WEFT_LOG_WARN, text);
    }
    sockets_pending_drop(l, c);
}

/* The packet that asks for a connection is lost where the other end's backlog is full. So a dialer
 * without an answer begins a new attempt. */
static bool is_unanswered(const sockets_pending *c, uint64_t now_us)
{
    return c->phase == SOCKETS_CONNECTING &&
           now_us - c->peer->dial_at > weft_handshake_answer_us(c->peer->attempts);
}

void sockets_handshake(sockets_link *l)
{
    uint64_t now_us = sockets_now_us(), gap_ms = now_us / 1000 - l->looked_ms;
    l->setup_ms += gap_ms < 100 ? gap_ms : 100;
    l->looked_ms = now_us / 1000;
    for (sockets_pending *c = l->pending, *next; c; c = next) {
        next = c->next;
        weft_status st = WEFT_BUSY;
        bool can_step = c->io.readable || c->io.writable || c->phase == SOCKETS_MATCHING;
        if (can_step) { /* the last step frees `c` */
            c->io.readable = c->io.writable = false;
            do
                st = steps[c->phase](l, c);
            while (st == WEFT_OK);
        }
        if (st != WEFT_BUSY) {
            end_attempt(l, c, st);
        } else if (!can_step && is_unanswered(c, now_us)) {
            snprintf(c->why, sizeof c->why, "it does not answer");
            end_attempt(l, c, WEFT_IO);
        }
    }
    sockets_redial(l, now_us);
}
