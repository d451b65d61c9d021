/* handshake.c: what happens between a new socket and a connection.
 *
 *   dialer (the higher rank)              listener (the lower rank)
 *   connect                               accept
 *   TLS 1.3 handshake with the job's key, label "weft.tcp JOB RANK-THAT-LISTENS"
 *   inside TLS: who I am, channel    ->   waits until the core has asked for that connection
 *                                    <-   inside TLS: welcome, or why not
 *   one byte: from here on payload   ->   connection is up
 *
 * Without encrypt both sides end the session before the last byte, so that neither can have read
 * ahead what is no longer TLS. An attempt that ends because the connection could not be made, or
 * was closed, is repeated after a pause for as long as the core asks; one that was refused in
 * words, or found another key or nobody at the port, fails the connection. */
#include "tcp.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { WELCOME, OTHER_ENCRYPT, NOT_OURS };

static const char magic[] = "wftH";

enum { MATCH_US = 100000 }; /* between two looks for the connection of a socket */

static void prepare(weft_link *l, int fd)
{
    int on = 1, idle = 10, every = 5, times = 3; /* a machine that vanished: 25 s */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    if (l->sndbuf > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &l->sndbuf, sizeof l->sndbuf);
}

/* Takes the descriptor, also when it fails. */
static greeting *greet(weft_link *l, int fd, bool dialer, const endpoint *other)
{
    greeting *g = l->host->alloc(l->host->ctx, sizeof *g, 0);
    if (!g) {
        close(fd);
        return NULL;
    }
    g->io = (source){.kind = SOURCE_GREETING, .fd = fd, .readable = true, .writable = true};
    g->dialer = dialer;
    g->phase = dialer ? DIALING : SHAKING;
    g->began = l->clock;
    g->next = l->greetings;
    l->greetings = g;
    l->strangers += dialer ? 0 : 1;
    tcp_print(other, g->where, sizeof g->where);
    if (tcp_watch(l, &g->io, EPOLL_CTL_ADD) == WEFT_OK)
        return g;
    tcp_drop_handshake(l, g);
    return NULL;
}

static void proved(weft_link *l, greeting *g)
{
    if (!g->dialer && !g->proved)
        l->strangers--;
    g->proved = true;
}

/* Unlinks and frees; the descriptor goes with it unless it was handed on. */
void tcp_drop_handshake(weft_link *l, greeting *g)
{
    greeting **at = &l->greetings;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    proved(l, g);
    if (g->conn)
        g->conn->greeting = NULL;
    if (g->tls)
        l->tls->end(g->tls);
    if (g->io.fd >= 0)
        close(g->io.fd);
    l->host->free(l->host->ctx, g);
}

void tcp_accepted(weft_link *l, int fd, const endpoint *from)
{
    prepare(l, fd);
    (void)greet(l, fd, false, from);
}

/* The attempt is over; the next one comes after a pause that doubles. `why` stands in the
 * connection until then, for whoever asks why it is not up. */
static void again(weft_conn *c, const char *why)
{
    char where[96];
    tcp_print(&c->to, where, sizeof where);
    snprintf(c->why, sizeof c->why, "cannot reach rank %u at %.80s: %.120s", c->peer, where, why);
    c->dial_at = tcp_now_us() + weft_handshake_pause_us(c->attempts);
    c->attempts++;
}

weft_status tcp_dial(weft_conn *c)
{
    weft_link *l = c->link;
    endpoint from = l->bound;
    char where[96];
    tcp_print(&c->to, where, sizeof where);
    if (from.any.sa_family != c->to.any.sa_family)
        return tcp_fail(l->host, WEFT_USAGE,
                        "rank %u listens on %s and this rank on an address of another family",
                        c->peer, where);
    int fd = socket(c->to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return tcp_fail(l->host, WEFT_IO, "tcp cannot open a socket: %s", strerror(errno));
    prepare(l, fd);
    if (l->rcvbuf > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &l->rcvbuf, sizeof l->rcvbuf);
    int on = 1; /* leave by the chosen address, port as the system likes */
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    *(from.any.sa_family == AF_INET6 ? &from.v6.sin6_port : &from.v4.sin_port) = 0;
    if (bind(fd, &from.any, tcp_length(&from)) != 0) {
        int why = errno;
        close(fd);
        return tcp_fail(l->host, WEFT_PEER, "cannot reach rank %u at %s: %s", c->peer, where,
                        strerror(why));
    }
    if (connect(fd, &c->to.any, tcp_length(&c->to)) != 0 && errno != EINPROGRESS) {
        again(c, strerror(errno));
        close(fd);
        return WEFT_OK;
    }
    greeting *g = greet(l, fd, true, &c->to);
    if (!g)
        return tcp_fail(l->host, WEFT_NO_MEMORY, "no memory for a connection");
    g->conn = c;
    c->greeting = g;
    c->dial_at = tcp_now_us();
    g->rank = c->peer;
    g->channel = c->channel;
    return WEFT_OK;
}

/* Move `text` up to `bytes` through the session, or bare when there is none. */
static weft_status move(greeting *g, const weft_host_tls *tls, bool give, uint32_t bytes)
{
    while (g->moved < bytes) {
        uint8_t *at = g->text + g->moved;
        uint64_t left = bytes - g->moved, done = 0;
        weft_status st = WEFT_OK;
        if (g->tls) {
            st = give ? tls->write(g->tls, at, left, &done) : tls->read(g->tls, at, left, &done);
        } else {
            ssize_t n = give ? send(g->io.fd, at, left, MSG_NOSIGNAL) : recv(g->io.fd, at, left, 0);
            if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return WEFT_BUSY;
            st = n <= 0 ? WEFT_PEER : WEFT_OK;
            done = n > 0 ? (uint64_t)n : 0;
        }
        if (st != WEFT_OK)
            return st;
        g->moved += (uint32_t)done;
    }
    g->moved = 0;
    return WEFT_OK;
}

/* Another attempt would meet the same. */
static weft_status refuse(greeting *g, weft_status code, const char *why)
{
    g->final = true;
    snprintf(g->why, sizeof g->why, "%s", why);
    return code;
}

static weft_status dialing(weft_link *l, greeting *g)
{
    (void)l;
    int why = 0;
    socklen_t size = sizeof why;
    endpoint peer;
    socklen_t length = sizeof peer;
    if (getsockopt(g->io.fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
        why = errno;
    if (why != 0) {
        snprintf(g->why, sizeof g->why, "%s", strerror(why));
        g->final = why == ECONNREFUSED; /* a peer listens from before it tells its address */
        return WEFT_PEER;
    }
    if (getpeername(g->io.fd, &peer.any, &length) != 0)
        return errno == ENOTCONN ? WEFT_BUSY : WEFT_PEER;
    g->phase = SHAKING;
    return WEFT_OK;
}

static void say(greeting *g, const weft_link *l, uint8_t code)
{
    const weft_handshake h = {code, l->rank, g->rank, g->channel};
    weft_handshake_write(g->text, magic, &h);
}

static weft_status shaking(weft_link *l, greeting *g)
{
    char label[192];
    weft_status st = WEFT_OK;
    if (!g->tls) {
        weft_handshake_label(label, sizeof label, "tcp", l->job, g->dialer ? g->rank : l->rank);
        st = l->tls->start(l->tls->ctx, g->io.fd, g->dialer ? 0 : 1, label, &g->tls);
    }
    if (st == WEFT_OK)
        st = l->tls->handshake(g->tls);
    if (st != WEFT_OK && st != WEFT_BUSY && st != WEFT_IO) /* WEFT_IO: the connection ended */
        return refuse(g, st, "the two did not prove to each other that they are of one job");
    if (st != WEFT_OK)
        return st;
    g->phase = HELLOING;
    if (g->dialer)
        say(g, l, l->encrypt);
    return WEFT_OK;
}

static void answer(weft_link *l, greeting *g, uint8_t code)
{
    say(g, l, code);
    g->phase = ANSWERING;
}

static weft_status helloing(weft_link *l, greeting *g)
{
    weft_status st = move(g, l->tls, g->dialer, HELLO);
    if (st != WEFT_OK)
        return st;
    g->phase = ANSWERING;
    if (g->dialer)
        return WEFT_OK;
    weft_handshake hello;
    if (weft_handshake_read(g->text, magic, &hello) != WEFT_OK)
        return refuse(g, WEFT_DATA, "it speaks another protocol");
    g->rank = hello.rank;
    g->channel = hello.channel;
    proved(l, g);
    g->phase = MATCHING;
    if (hello.code != (l->encrypt ? 1 : 0))
        answer(l, g, OTHER_ENCRYPT);
    if (!weft_handshake_expected(&hello, l->rank, l->ranks))
        answer(l, g, NOT_OURS);
    return WEFT_OK;
}

static weft_status matching(weft_link *l, greeting *g)
{
    for (weft_conn *c = l->conns; c; c = c->next)
        if (c->peer == g->rank && c->channel == g->channel && !c->up && !c->greeting &&
            c->broken == WEFT_OK) {
            g->conn = c;
            c->greeting = g;
            answer(l, g, WELCOME);
            return WEFT_OK;
        }
    return WEFT_BUSY;
}

static weft_status answering(weft_link *l, greeting *g)
{
    weft_status st = move(g, l->tls, !g->dialer, HELLO);
    if (st != WEFT_OK)
        return st;
    weft_handshake said;
    if (weft_handshake_read(g->text, magic, &said) != WEFT_OK)
        return refuse(g, WEFT_DATA, "it speaks another protocol");
    if (said.code == OTHER_ENCRYPT)
        return refuse(g, WEFT_USAGE, "[comm.tcp] encrypt must be the same on all ranks");
    if (said.code != WELCOME)
        return refuse(g, WEFT_PEER, "it expects no such rank");
    if (!l->encrypt) {
        l->tls->end(g->tls);
        g->tls = NULL;
    }
    g->phase = GOING;
    return WEFT_OK;
}

static weft_status going(weft_link *l, greeting *g)
{
    weft_status st = move(g, l->tls, g->dialer, 1);
    if (st != WEFT_OK)
        return st;
    int fd = g->io.fd;
    weft_tls *tls = g->tls;
    weft_conn *c = g->conn;
    g->io.fd = -1;
    g->tls = NULL;
    tcp_drop_handshake(l, g);
    tcp_adopt(c, fd, tls);
    return WEFT_BUSY; /* g is gone: no more steps */
}

static weft_status (*const steps[])(weft_link *, greeting *) = {
    [DIALING] = dialing,   [SHAKING] = shaking,     [HELLOING] = helloing,
    [MATCHING] = matching, [ANSWERING] = answering, [GOING] = going,
};

/* What ends an attempt of ours for good fails its connection; anything else that ends it is tried
 * again, by whoever dials. Of a stranger, a few words in the log are enough. */
static void drop(weft_link *l, greeting *g, weft_status st)
{
    char text[WHY + 64];
    weft_conn *c = g->conn;
    const char *why = g->why[0] != '\0' ? g->why : "it closed the connection";
    if (c && g->final) {
        (void)!tcp_break(c, st, "cannot set up channel %u with rank %u at %s: %s", g->channel,
                         g->rank, g->where, why);
    } else if (c && g->dialer) {
        again(c, why);
    } else if (!c && l->dropped++ < 8) {
        snprintf(text, sizeof text, "dropped a connection from %s: %s", g->where, why);
        l->host->log(l->host->ctx, WEFT_LOG_WARN, text);
    }
    tcp_drop_handshake(l, g);
}

/* A dialer that has no answer after a second, then two, four and eight, begins anew: the packet
 * that asks for a connection is lost where the other's backlog is full. */
static bool unanswered(const greeting *g, uint64_t now)
{
    if (g->phase != DIALING)
        return false;
    return now - g->conn->dial_at > weft_handshake_answer_us(g->conn->attempts);
}

static void redial(weft_link *l, uint64_t now)
{
    for (weft_conn *c = l->conns; c; c = c->next) {
        if (c->up || c->broken != WEFT_OK || c->greeting || c->peer > l->rank || now < c->dial_at)
            continue;
        weft_status st = tcp_dial(c);
        if (st != WEFT_OK)
            (void)!tcp_break(c, st, "channel %u cannot be set up with rank %u again", c->channel,
                             c->peer);
    }
}

void tcp_handshake_step(weft_link *l)
{
    uint64_t now = tcp_now_us(), gap = now / 1000 - l->ticked;
    l->clock += gap < 100 ? gap : 100;
    l->ticked = now / 1000;
    for (greeting *g = l->greetings, *next; g; g = next) {
        next = g->next;
        weft_status st = WEFT_BUSY;
        bool moves = g->io.readable || g->io.writable || g->phase == MATCHING;
        if (moves) { /* and with its last step it is gone */
            g->io.readable = g->io.writable = false;
            do
                st = steps[g->phase](l, g);
            while (st == WEFT_OK);
        }
        if (st != WEFT_BUSY) {
            drop(l, g, st);
        } else if (!moves && unanswered(g, now)) {
            snprintf(g->why, sizeof g->why, "it does not answer");
            drop(l, g, WEFT_IO);
        }
    }
    redial(l, now);
}

uint32_t tcp_pause_us(const weft_link *l)
{
    if (l->settled)
        return UINT32_MAX;
    uint32_t most = l->greetings ? MATCH_US : UINT32_MAX;
    if (l->strangers == PLACES)
        most = (uint32_t)weft_handshake_pause_us(0);
    for (const weft_conn *c = l->conns; c; c = c->next)
        if (!c->up && !c->greeting && c->peer < l->rank &&
            most > (uint32_t)weft_handshake_pause_us(0))
            most = (uint32_t)weft_handshake_pause_us(0);
    return most;
}
