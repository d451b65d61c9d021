/* job/beats/parent.c: the connection to the parent, see beats.h. Nothing here blocks: each turn
 * goes as far as the socket allows. An attempt that fails is repeated after a pause that grows,
 * until run.join_timeout after the meeting; one that was up is not made again. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <weft/handshake.h>

#include "base/err.h"
#include "base/log.h"
#include "job/beats/beats.h"

#define ATTEMPT_MS 3000 /* until connected, from there until the welcome */
#define SPREAD_MS 4096  /* ranks dial a millisecond apart: many may share a machine */

static bool find_address(const job_place *at, job_beats_parent *p)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[12];
    snprintf(port, sizeof port, "%u", at->port);
    if (!at->port || getaddrinfo(at->address, port, &hints, &list))
        return false;
    memcpy(&p->to, list->ai_addr, list->ai_addrlen);
    p->to_bytes = list->ai_addrlen;
    freeaddrinfo(list);
    return true;
}

/* Rank 0 watches this rank for good; the user learns why. */
static void give_up(job_beats *b, const char *why)
{
    b->parent.phase = BEATS_OFF;
    log_line(WEFT_LOG_WARN,
             "no heartbeats with rank %u, so rank 0 exchanges them with this rank itself: %s",
             job_tree_parent(&b->tree, b->j->who.rank), why);
    err_clear();
}

static void watch(job_beats *b, uint32_t events)
{
    job_beats_parent *p = &b->parent;
    struct epoll_event e = {.events = events, .data.ptr = p};
    if (events == p->watched || p->w.fd < 0)
        return;
    if (!epoll_ctl(b->epoll_fd, p->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, p->w.fd, &e))
        p->watched = events;
}

static void close_attempt(job_beats_parent *p)
{
    job_wire_close(&p->w); /* which removes it from epoll */
    p->watched = 0;
}

static void fail_attempt(job_beats *b)
{
    job_beats_parent *p = &b->parent;
    const uint64_t now = awake_ms();
    close_attempt(p);
    if (now >= p->give_up) {
        give_up(b, err_text());
        return;
    }
    err_clear();
    p->phase = BEATS_PAUSE;
    p->until = now + weft_handshake_pause_us(p->attempts++) / 1000;
}

static weft_status dial(job_beats_parent *p)
{
    const int fd = socket(p->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "no socket");
    job_wire_hold(&p->w, fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    p->hail.got = 0;
    p->phase = BEATS_CONNECT;
    p->until = awake_ms() + ATTEMPT_MS;
    if (connect(fd, (const struct sockaddr *)&p->to, p->to_bytes) && errno != EINPROGRESS)
        return err_fail_errno(WEFT_IO, "it cannot be connected to");
    return WEFT_OK;
}

static weft_status finish_connect(job_beats_parent *p)
{
    int error = 0;
    socklen_t n = sizeof error;
    struct sockaddr_storage other;
    socklen_t m = sizeof other;
    if (getsockopt(p->w.fd, SOL_SOCKET, SO_ERROR, &error, &n) || error) {
        errno = error ? error : errno;
        return err_fail_errno(WEFT_IO, "it cannot be connected to");
    }
    if (getpeername(p->w.fd, (struct sockaddr *)&other, &m))
        return WEFT_BUSY;
    p->phase = BEATS_GREETING;
    p->until = awake_ms() + ATTEMPT_MS;
    return WEFT_OK;
}

static weft_status read_greeting(job_beats *b)
{
    job_beats_parent *p = &b->parent;
    weft_status st = job_handshake_read(&p->hail, p->w.fd);
    if (st == WEFT_OK)
        st = job_handshake_open(&p->hail, p->key, b->j->tls, false, &p->w);
    if (st == WEFT_OK)
        p->phase = BEATS_SHAKE;
    return st;
}

static weft_status shake(job_beats *b)
{
    job_beats_parent *p = &b->parent;
    const weft_status st = job_tls_handshake(p->w.tls);
    if (st != WEFT_OK)
        return st;
    p->w.limit = BEAT_DOWN_BYTES;
    job_handshake_hello(&p->w, &b->j->who, b->process, &(job_place){0});
    p->phase = BEATS_WELCOME;
    return WEFT_OK;
}

/* A number that changes is a sign of life of rank 0; children get it in this turn. */
static weft_status take_beat(job_beats *b, const job_wire_frame *f)
{
    job_beat_root root;
    if (f->type != WIRE_BEAT || !job_beat_unpack_down(f, &root))
        return err_fail(WEFT_DATA, "it sent a frame of type %u", f->type);
    if (root.number > b->root.number) {
        b->root = root;
        b->last_seen = b->j->clock.sum;
    }
    return WEFT_OK;
}

static void begin_beats(job_beats_parent *p)
{
    p->phase = BEATS_UP;
    p->was_up = true;
}

static weft_status read_frames(job_beats *b)
{
    job_beats_parent *p = &b->parent;
    job_wire_frame f;
    weft_status st = job_wire_flush(&p->w);
    if (st != WEFT_OK && st != WEFT_BUSY)
        return st;
    while ((st = job_wire_take(&p->w, &f)) == WEFT_OK) {
        if (p->phase == BEATS_UP)
            st = take_beat(b, &f);
        else if (f.type == WIRE_WELCOME && !f.bytes)
            begin_beats(p);
        else
            st = err_fail(WEFT_DATA, "it answered with a frame of type %u", f.type);
        if (st != WEFT_OK)
            return st;
    }
    return st;
}

static weft_status step(job_beats *b)
{
    switch (b->parent.phase) {
    case BEATS_CONNECT: return finish_connect(&b->parent);
    case BEATS_GREETING: return read_greeting(b);
    case BEATS_SHAKE: return shake(b);
    default: return read_frames(b);
    }
}

static uint32_t wanted(const job_beats_parent *p)
{
    if (p->phase == BEATS_CONNECT)
        return EPOLLOUT;
    const bool writes = p->w.tls && (job_tls_wants(p->w.tls) == 2 || job_wire_unsent(&p->w));
    return EPOLLIN | (writes ? (uint32_t)EPOLLOUT : 0);
}

void job_parent_turn(job_beats *b)
{
    job_beats_parent *p = &b->parent;
    weft_status st = WEFT_OK;
    if (p->phase == BEATS_OFF || (p->phase == BEATS_PAUSE && awake_ms() < p->until))
        return;
    if (p->phase == BEATS_UP && !p->ready && !job_wire_unsent(&p->w))
        return;
    p->ready = false;
    if (p->phase == BEATS_PAUSE)
        st = dial(p);
    while (st == WEFT_OK)
        st = step(b);
    if (st == WEFT_BUSY && p->phase < BEATS_UP && awake_ms() >= p->until)
        st = err_fail(WEFT_IO, "it does not answer");
    if (st == WEFT_BUSY) {
        watch(b, wanted(p));
    } else if (p->phase == BEATS_UP) {
        log_line(WEFT_LOG_DEBUG, "the connection for heartbeats has ended: %s", err_text());
        err_clear();
        close_attempt(p);
        p->phase = BEATS_OFF;
    } else {
        fail_attempt(b);
    }
}

void job_parent_begin(job_beats *b, const job_place *at)
{
    job_beats_parent *p = &b->parent;
    char label[32];
    const uint32_t rank = job_tree_parent(&b->tree, b->j->who.rank);
    snprintf(label, sizeof label, "%u", rank);
    if (!find_address(at, p)) {
        give_up(b, "it does not listen");
        return;
    }
    if (job_key_derive(b->j->key, b->j->meeting, "tls beats", label, p->key) != WEFT_OK) {
        give_up(b, err_text());
        return;
    }
    p->phase = BEATS_PAUSE;
    p->until = awake_ms() + b->j->who.rank % SPREAD_MS;
    p->give_up = p->until + b->j->join_ms;
}

void job_parent_close(job_beats *b)
{
    close_attempt(&b->parent);
    explicit_bzero(b->parent.key, sizeof b->parent.key);
}
