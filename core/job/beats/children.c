/* job/beats/children.c: the connections of the children, see beats.h. */
#define _GNU_SOURCE
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/beats/beats.h"
#include "job/wire/address.h"

/* --- listening --- */

void job_children_prepare(job_beats *b)
{
    job_beats_children *c = &b->children;
    c->at = mem_alloc(c->n * sizeof *c->at);
    job_door_prepare(&c->door, b->j->tls, c->key, "");
    c->door.epoll_fd = b->epoll_fd;
}

/* The socket, or -1 with a record. */
static int listen_at(const char *address, uint32_t children)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *list = NULL;
    if (getaddrinfo(address, "0", &hints, &list)) {
        (void)err_fail(WEFT_USAGE, "'%s' is not an address", address);
        return -1;
    }
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) || job_listen_guarded(fd, children)) {
        (void)err_fail_errno(WEFT_IO, "cannot listen at %s", address);
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

static uint32_t port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n))
        return 0;
    return a.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&a)->sin_port)
                                  : ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
}

/* Another hello may go out from another address: then the listener is made anew. */
void job_children_listen(job_beats *b, const char *address, job_place *out)
{
    job_door *d = &b->children.door;
    const int fd = listen_at(address, b->children.n);
    if (d->sockets)
        close(d->listens[0]);
    d->sockets = fd >= 0;
    d->listens[0] = fd;
    if (fd < 0) {
        log_line(WEFT_LOG_WARN, "rank 0 exchanges heartbeats with ranks %u to %u itself: %s",
                 b->children.first, b->children.first + b->children.n - 1, err_text());
        err_clear();
        return;
    }
    out->port = port_of(fd);
    snprintf(out->address, sizeof out->address, "%s", address);
}

void job_children_begin(job_beats *b)
{
    job_beats_children *c = &b->children;
    char label[32];
    snprintf(label, sizeof label, "%u", b->j->who.rank);
    if (!c->door.sockets)
        return;
    if (job_key_derive(b->j->key, b->j->meeting, "tls beats", label, c->key) != WEFT_OK ||
        job_door_watch(&c->door) != WEFT_OK) {
        log_line(WEFT_LOG_WARN, "no heartbeats with ranks %u to %u: %s", c->first,
                 c->first + c->n - 1, err_text());
        err_clear();
        job_door_close(&c->door);
        return;
    }
    c->close_at = awake_ms() + b->j->join_ms;
}

/* --- admission --- */

static bool hello_fits(const job_beats *b, const job_wire_hello *h)
{
    const job_beats_children *c = &b->children;
    char version[WIRE_VERSION];
    job_wire_version(version);
    return !strcmp(h->version, version) && h->ranks == b->j->who.ranks && h->rank >= c->first &&
           h->rank - c->first < c->n;
}

/* A child that tries again gets a new connection in place of the old one. */
static void admit(job_beats *b, int place, uint32_t rank)
{
    job_beats_children *c = &b->children;
    job_beats_child *child = &c->at[rank - c->first];
    if (child->p)
        job_peer_drop(child->p);
    c->connected += !child->p;
    child->p = job_door_admit(&c->door, place, rank, child->p);
    child->p->w.limit = BEAT_MAX;
    child->watch.last_seen = b->j->clock.sum;
    job_listen_admitted(child->p->w.fd);
    job_wire_send(&child->p->w, WIRE_WELCOME, 0, 0, NULL, 0);
    if (c->connected == c->n)
        job_door_close(&c->door);
}

static void stranger_event(job_beats *b, int place)
{
    job_wire_frame f;
    job_wire_hello h;
    if (job_door_advance(&b->children.door, place, &f) != WEFT_OK)
        return;
    if (job_wire_unpack_hello(&f, &h) && hello_fits(b, &h))
        admit(b, place, h.rank);
    else
        job_door_turn_away(&b->children.door, place, "its hello is not that of a child");
}

/* --- a child --- */

static job_beats_child *child_of(job_beats *b, const job_peer *p)
{
    return &b->children.at[p->rank - b->children.first];
}

static void send_silent(job_beats *b, uint32_t rank, const job_watch *w)
{
    uint8_t body[8];
    job_wire_put64(body, b->j->clock.sum - w->last_seen);
    job_wire_send(b->store, WIRE_SILENT, rank, 0, body, sizeof body);
    b->j->drained = false;
}

/* The connection has ended, though the rank may be alive: rank 0 watches it again. */
static void lose(job_beats *b, job_peer *p)
{
    job_beats_child *child = child_of(b, p);
    job_peer_drop(p);
    if (child->watch.taken)
        send_silent(b, p->rank, &child->watch);
    child->watch.taken = false;
}

/* The mark of a rank below travels up with the next beat. */
static void note(job_beats *b, uint32_t rank, const job_beat_mark *m)
{
    if (b->known[rank].step == m->step && b->known[rank].place == m->place)
        return;
    b->known[rank] = *m;
    if (!b->fresh[rank])
        b->news[b->news_n++] = rank;
    b->fresh[rank] = true;
}

static bool take_frame(job_beats *b, const job_peer *p, const job_wire_frame *f)
{
    job_beat_mark m;
    uint32_t n;
    if (f->type != WIRE_BEAT || !job_beat_unpack_up(f, &m, &n))
        return false;
    note(b, p->rank, &m);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rank = job_beat_entry(f, i, &m);
        if (!job_tree_is_below(&b->tree, p->rank, rank))
            return false;
        note(b, rank, &m);
    }
    return true;
}

static void child_event(job_beats *b, job_peer *p)
{
    job_wire_frame f;
    weft_status st;
    while ((st = job_wire_take(&p->w, &f)) == WEFT_OK) {
        if (!take_frame(b, p, &f)) {
            st = err_fail(WEFT_DATA, "rank %u sent a malformed heartbeat", p->rank);
            break;
        }
        child_of(b, p)->watch.last_seen = b->j->clock.sum;
    }
    if (st == WEFT_BUSY) {
        job_peer_watch(b->epoll_fd, p);
        return;
    }
    log_line(WEFT_LOG_DEBUG, "heartbeats of rank %u: %s", p->rank, err_text());
    err_clear();
    lose(b, p);
}

void job_children_event(job_beats *b, void *what)
{
    job_door *d = &b->children.door;
    job_peer *p = what;
    if (what == d) {
        job_door_let_in(d);
        return;
    }
    const int place = job_door_place(d, p);
    if (place >= 0)
        stranger_event(b, place);
    else if (p->w.fd >= 0)
        child_event(b, p);
}

/* --- the turn --- */

static void flush(job_beats *b, job_peer *p)
{
    const weft_status st = job_wire_flush(&p->w);
    if (st == WEFT_OK || st == WEFT_BUSY)
        job_peer_watch(b->epoll_fd, p);
    else
        lose(b, p);
}

static void check_child(job_beats *b, job_beats_child *child)
{
    const uint32_t rank = child->p->rank;
    switch (job_tree_check_child(&child->watch, b->j->clock.sum, b->j->silence_ms)) {
    case JOB_WATCH_TAKE:
        job_wire_send(b->store, WIRE_WATCHES, rank, 0, NULL, 0);
        b->j->drained = false;
        break;
    case JOB_WATCH_RETURN: send_silent(b, rank, &child->watch); break;
    default: break;
    }
}

/* A new number goes down at once. Without one the children still learn that this rank lives. */
static bool is_down_due(const job_beats *b, uint64_t now)
{
    const job_beats_children *c = &b->children;
    return b->root.number != c->passed || now - c->sent >= b->j->beat_ms + b->j->beat_ms / 2;
}

void job_children_turn(job_beats *b)
{
    job_beats_children *c = &b->children;
    const uint64_t now = awake_ms();
    const bool due = is_down_due(b, now);
    uint8_t body[BEAT_DOWN_BYTES];
    if (c->close_at && now >= c->close_at)
        job_door_close(&c->door);
    if (c->close_at)
        job_door_turn(&c->door);
    job_beat_pack_down(&b->root, body);
    for (uint32_t i = 0; i < c->n; i++) {
        job_peer *p = c->at[i].p;
        if (!p || p->w.fd < 0)
            continue;
        check_child(b, &c->at[i]);
        if (due && !job_wire_unsent(&p->w))
            job_wire_send(&p->w, WIRE_BEAT, 0, 0, body, sizeof body);
        if (job_wire_unsent(&p->w))
            flush(b, p);
    }
    if (due) {
        c->passed = b->root.number;
        c->sent = now;
    }
}

void job_children_close(job_beats *b)
{
    job_beats_children *c = &b->children;
    if (c->door.strangers[0])
        job_door_free(&c->door);
    for (uint32_t i = 0; i < c->n && c->at; i++)
        if (c->at[i].p) {
            job_peer_drop(c->at[i].p);
            free(c->at[i].p);
        }
    free(c->at);
    explicit_bzero(c->key, sizeof c->key);
}
