/* job/client.c: ranks other than 0: connecting to the store, and the thread that serves the
 * connection.
 *
 * The caller of job_join() makes the connection; then the thread owns it. It sends a heartbeat with
 * this rank's progress every quarter of a second, carries requests and answers, and monitors rank 0
 * as rank 0 monitors the others. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "job/client.h"
#include "job/decide/failure.h"
#include "job/mailbox.h"
#include "job/restart/progress.h"
#include "job/stop.h"
#include "job/wire/address.h"
#include "job/wire/handshake.h"
#include "job/wire/key.h"

#define ATTEMPT_MS 3000 /* until the greeting, and from there until the welcome */
#define AGAIN_MS 50     /* between attempts */

struct client {
    wire w;
    uint64_t alive;       /* job.clock when rank 0 last gave a sign of life */
    uint64_t beat;        /* clock_ms() of our last heartbeat */
    uint64_t step, place; /* of rank 0 */
    bool met;             /* rank 0 has welcomed us */
    uint64_t process;     /* job_wire_hello */
};

/* --- events --- */

static void send_now(job *j, uint32_t type, uint32_t arg, const void *body, uint32_t bytes)
{
    job_wire_send(&j->client->w, type, arg, 0, body, bytes);
    j->drained = false;
}

static void act(job *j, const job_event *e)
{
    uint8_t body[8];
    if (e->kind == JOB_EVENT_FAILURE) {
        (void)job_record_cause(j, e->rank, e->text);
    } else if (e->kind == JOB_EVENT_ASK_STOP) {
        send_now(j, WIRE_STOP, (uint32_t)e->number, NULL, 0);
    } else if (e->kind == JOB_EVENT_HOLD) {
        job_wire_put64(body, e->step);
        send_now(j, WIRE_HELD, 0, body, sizeof body);
    } else {
        job_stop_act(j, e);
    }
}

/* This rank monitors rank 0 only; it has no state of the others. */
static job_sign sign_of(const job *j, uint32_t rank)
{
    const client *c = j->client;
    if (rank)
        return (job_sign){.rank = rank, .seen = JOB_SEEN_UNKNOWN};
    return (job_sign){
        .seen = c->met ? JOB_SEEN_AT : JOB_SEEN_NEVER, .step = c->step, .place = c->place};
}

static void add_sign(job *j, uint32_t weight, const char *text)
{
    const job_view v = job_view_now(j);
    job_sign s = sign_of(j, 0);
    s.weight = weight;
    s.text = text;
    const job_event e = job_failure_sign(&j->candidate, &v, &s);
    act(j, &e);
}

static void judge(job *j)
{
    const job_view v = job_view_now(j);
    const job_event e = job_failure_due(&j->candidate, &v);
    act(j, &e);
}

static void read_launcher(job *j)
{
    job_control_record r;
    int got;
    while ((got = job_read_launcher(j, &r)) > 0) {
        const job_view v = job_view_now(j);
        const job_sign s = sign_of(j, r.rank);
        const job_event e = job_failure_ended(&j->candidate, &v, &r, &s);
        act(j, &e);
    }
    if (got < 0)
        (void)job_record_cause(j, j->who.rank, JOB_LAUNCHER_ENDED);
}

/* --- finding rank 0 --- */

/* Wait for `events` of `fd` (-1: only wait) until `until`, and handle reports of the launcher
 * meanwhile. WEFT_OK: ready; WEFT_BUSY: timeout; WEFT_PEER: a rank failed. */
static weft_status wait_for(job *j, int fd, short events, uint64_t until)
{
    for (;;) {
        uint64_t now = clock_ms();
        int left = now >= until ? 0 : until - now < TICK_MS ? (int)(until - now) : TICK_MS;
        struct pollfd p[2] = {{.fd = fd, .events = events},
                              {.fd = j->control_fd, .events = POLLIN}};
        int n = poll(p, 2, left);
        pthread_mutex_lock(&j->lock);
        if (n > 0 && p[1].revents)
            read_launcher(j);
        judge(j);
        if (job_stop_asked() && !atomic_load(&j->failed))
            job_stop_act(j, &(job_event){.kind = JOB_EVENT_END_WAITS, .number = job_stop_asked()});
        pthread_mutex_unlock(&j->lock);
        if (atomic_load(&j->failed))
            return job_fail_here(j);
        if (n > 0 && p[0].revents)
            return WEFT_OK;
        if (clock_ms() >= until)
            return WEFT_BUSY;
    }
}

static weft_status connect_one(job *j, const struct addrinfo *a, uint64_t until, int *out)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_fail_errno(WEFT_IO, "no socket");
    int on = 1, error = 0;
    socklen_t n = sizeof error;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    weft_status st = WEFT_OK;
    if (connect(fd, a->ai_addr, a->ai_addrlen)) {
        error = errno;
        if (error == EINPROGRESS && (st = wait_for(j, fd, POLLOUT, until)) == WEFT_OK)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n);
    }
    if (st == WEFT_OK && error)
        st = err_fail(WEFT_IO, "%s", strerror(error));
    if (st == WEFT_BUSY)
        st = err_fail(WEFT_IO, "no answer");
    if (st != WEFT_OK)
        close(fd);
    else
        *out = fd;
    return st;
}

static void say_hello(job *j, wire *w)
{
    job_wire_hello h = {.rank = j->who.rank,
                        .ranks = j->who.ranks,
                        .process = j->client->process,
                        .launch = j->who.launch,
                        .attempt = job_attempt_number()};
    uint8_t body[HELLO_BYTES];
    job_wire_version(h.version);
    job_wire_host(h.host);
    job_wire_pack_hello(&h, body);
    job_wire_send(w, WIRE_HELLO, 0, 0, body, sizeof body);
}

/* Wait for the socket events that the session needs; a timeout is WEFT_IO, which is retried. */
static weft_status wait_session(job *j, wire *w, uint64_t until)
{
    weft_status st = wait_for(j, w->fd, job_tls_wants(w->tls) == 2 ? POLLOUT : POLLIN, until);
    return st == WEFT_BUSY ? err_fail(WEFT_IO, "it accepts connections but sends nothing") : st;
}

static weft_status shake(job *j, wire *w, uint64_t until)
{
    weft_status st;
    while ((st = job_tls_handshake(w->tls)) == WEFT_BUSY)
        if ((st = wait_session(j, w, until)) != WEFT_OK)
            return st;
    if (st != WEFT_OK && job_tls_lost(w->tls))
        return err_fail(WEFT_IO, "it closed the connection");
    if (st != WEFT_OK)
        err_context("rank %u was not let into the job at %s port %u", j->who.rank, j->who.addr,
                    j->who.port);
    return st;
}

static void send_beat(job *j)
{
    uint8_t body[16];
    job_wire_put64(body, atomic_load_explicit(&j->step, memory_order_relaxed));
    job_wire_put64(body + 8, atomic_load_explicit(&j->place, memory_order_relaxed));
    job_wire_send(&j->client->w, WIRE_BEAT, 0, 0, body, sizeof body);
}

/* WEFT_IO, which is retried: rank 0 has learned from us that its attempt is over. */
static weft_status other_attempt(uint32_t newest)
{
    const uint32_t own = job_attempt_number();
    if (newest <= own)
        return err_fail(WEFT_IO, "rank 0 is still in an attempt before attempt %u", own);
    job_progress_hear(newest);
    return err_fail(WEFT_PEER,
                    "attempt %u of this job has begun, and this process is of attempt %u", newest,
                    own);
}

static weft_status welcome(job *j, wire *w, uint64_t until)
{
    job_wire_frame f;
    weft_status st;
    w->limit = WIRE_TEXT;
    say_hello(j, w);
    while ((st = job_wire_flush(w)) == WEFT_BUSY ||
           (st == WEFT_OK && (st = job_wire_take(w, &f)) == WEFT_BUSY))
        if ((st = wait_session(j, w, until)) != WEFT_OK)
            return st;
    if (st != WEFT_OK)
        return job_tls_lost(w->tls) ? err_fail(WEFT_IO, "it closed the connection") : st;
    if (f.type == WIRE_WELCOME && f.bytes == MEETING_BYTES) {
        memcpy(j->meeting, f.body, MEETING_BYTES);
        w->limit = WIRE_BODY_MAX;
        send_beat(j); /* after this frame the store counts the rank as confirmed */
        st = job_wire_flush(w);
        return st == WEFT_BUSY ? WEFT_OK : st;
    }
    char why[WIRE_TEXT];
    if (f.type == WIRE_ATTEMPT)
        return other_attempt(f.arg);
    if (f.type != WIRE_REFUSED)
        return err_fail(WEFT_DATA, "rank 0 answered the hello of rank %u with a frame of type %u",
                        j->who.rank, f.type);
    job_wire_text(&f, why, sizeof why);
    return f.arg == WEFT_PEER ? err_fail(WEFT_PEER, "%s", why)
                              : err_fail(WEFT_USAGE, "rank 0 refused this rank: %s", why);
}

/* Read the greeting and start the session; the socket is closed on failure. */
static weft_status begin_session(job *j, int fd, uint64_t until)
{
    greeting g = {.got = 0};
    uint8_t psk[KEY_BYTES];
    weft_status st;
    while ((st = job_handshake_read(&g, fd)) == WEFT_BUSY)
        if ((st = wait_for(j, fd, POLLIN, until)) != WEFT_OK)
            break;
    if (st == WEFT_BUSY)
        st = err_fail(WEFT_IO, "it accepts connections but sends nothing");
    else if (st == WEFT_USAGE)
        err_context("rank %u asked for the job at %s port %u", j->who.rank, j->who.addr,
                    j->who.port);
    if (st == WEFT_OK && j->key_comes)
        st = job_munge_open(job_handshake_sealed(&g), j->key); /* the last one may be old */
    if (st == WEFT_OK)
        st = job_handshake_key(&g, j->key, psk);
    if (st != WEFT_OK)
        close(fd);
    else
        st = job_wire_open(&j->client->w, j->tls, fd, false, psk);
    explicit_bzero(psk, sizeof psk);
    return st;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One attempt at one address. WEFT_IO: try again. The timeout restarts at the greeting: before it
 * the connection waits in the backlog of rank 0's kernel, behind any number of others. */
static weft_status attempt(job *j, const struct addrinfo *a, uint64_t deadline)
{
    client *c = j->client;
    uint64_t until = earlier(clock_ms() + ATTEMPT_MS, deadline);
    int fd = -1;
    weft_status st = connect_one(j, a, until, &fd);
    if (st != WEFT_OK || (st = begin_session(j, fd, until)) != WEFT_OK)
        return st;
    until = earlier(clock_ms() + ATTEMPT_MS, deadline);
    st = shake(j, &c->w, until);
    if (st == WEFT_OK)
        st = welcome(j, &c->w, until);
    if (st != WEFT_OK)
        job_wire_close(&c->w);
    return st;
}

static weft_status find_store(job *j)
{
    struct addrinfo *list = NULL;
    uint64_t deadline = clock_ms() + j->join_ms;
    weft_status st = job_address_resolve(&j->who, &list);
    if (st != WEFT_OK)
        return st;
    const struct addrinfo *a = list;
    while ((st = attempt(j, a, deadline)) == WEFT_IO && clock_ms() < deadline) {
        a = a->ai_next;
        if (a)
            continue;
        a = list;
        weft_status pause = wait_for(j, -1, 0, clock_ms() + AGAIN_MS);
        if (pause != WEFT_BUSY) {
            st = pause;
            break;
        }
    }
    freeaddrinfo(list);
    if (st == WEFT_IO) {
        err_context("rank %u did not reach rank 0 at %s port %u within %.0f s", j->who.rank,
                    j->who.addr, j->who.port, (double)j->join_ms / 1000);
        return WEFT_PEER;
    }
    return st;
}

/* --- the thread --- */

static void lost(job *j)
{
    job_wire_close(&j->client->w);
    add_sign(j, JOB_CAUSE_GONE, "is gone: its connection was closed without a message");
}

static bool take_stop(job *j, const job_wire_frame *f)
{
    const bool hold = f->type == WIRE_HOLD;
    if (f->bytes != (hold ? 0u : 8u))
        return false;
    const job_event e = hold ? job_agreement_hold(&j->halt, (int)f->arg)
                             : job_agreement_settle(&j->halt, (int)f->arg, job_wire_get64(f->body));
    act(j, &e);
    return true;
}

static bool take_frame(job *j, const job_wire_frame *f)
{
    client *c = j->client;
    char text[WIRE_TEXT], ours[WIRE_TEXT + 32];
    switch (f->type) {
    case WIRE_BEAT:
        if (f->bytes != 16)
            return false;
        c->step = job_wire_get64(f->body);
        c->place = job_wire_get64(f->body + 8);
        return true;
    case WIRE_JOINED:
        j->joined = true;
        job_notify(j);
        return true;
    case WIRE_REPLY: job_answer(j, f->seq, (weft_status)f->arg, f->body, f->bytes); return true;
    case WIRE_FAILURE:
        job_wire_text(f, text, sizeof text);
        snprintf(ours, sizeof ours, "this rank was given up: %s", text);
        (void)job_record_cause(j, f->arg, f->arg == j->who.rank ? ours : text);
        return true;
    case WIRE_HOLD:
    case WIRE_LAST: return take_stop(j, f);
    case WIRE_ALL_LEFT:
        j->all_left = true;
        job_notify(j);
        return true;
    default: return false;
    }
}

static void read_all(job *j)
{
    client *c = j->client;
    if (c->w.fd < 0)
        return;
    uint64_t before = job_tls_heard(c->w.tls);
    job_wire_frame f;
    weft_status st;
    while ((st = job_wire_take(&c->w, &f)) == WEFT_OK)
        if (!take_frame(j, &f)) {
            add_sign(j, JOB_CAUSE_SURE, "broke the protocol of the store");
            job_wire_close(&c->w);
            return;
        }
    if (job_tls_heard(c->w.tls) != before)
        c->alive = j->clock.ms;
    if (st != WEFT_BUSY)
        lost(j);
}

static void tick(job *j)
{
    client *c = j->client;
    uint64_t now = clock_ms(), silent = awake_tick(&j->clock) - c->alive;
    if (c->w.fd >= 0 && silent >= j->silence_ms) {
        char text[96];
        snprintf(text, sizeof text, "is frozen: no sign of life for %.1f s", (double)silent / 1000);
        add_sign(j, JOB_CAUSE_SURE, text);
    }
    judge(j);
    const job_view v = job_view_now(j);
    const job_event e = job_agreement_request(&j->halt, &v, job_stop_asked());
    act(j, &e);
    job_stop_end_overdue(j);
    if (c->w.fd < 0 || now - c->beat < j->beat_ms || job_wire_unsent(&c->w))
        return;
    send_beat(j);
    c->beat = now;
}

static void write_all(job *j)
{
    client *c = j->client;
    weft_status st = job_wire_flush(&c->w);
    if (st != WEFT_OK && st != WEFT_BUSY) {
        read_all(j); /* a last frame of rank 0 may have arrived before the end */
        if (c->w.fd >= 0)
            lost(j);
    }
    bool drained = c->w.fd < 0 || !job_wire_unsent(&c->w);
    if (drained && !j->drained)
        job_notify(j);
    j->drained = drained;
}

static void *stay(void *arg)
{
    job *j = arg;
    client *c = j->client;
    for (bool stop = false; !stop;) {
        pthread_mutex_lock(&j->lock);
        bool writes = c->w.fd >= 0 && (job_wire_unsent(&c->w) || job_tls_wants(c->w.tls) == 2);
        struct pollfd p[3] = {
            {.fd = c->w.fd, .events = (short)(POLLIN | (writes ? POLLOUT : 0))},
            {.fd = j->wake_fd, .events = POLLIN},
            {.fd = j->control_fd, .events = POLLIN},
        };
        pthread_mutex_unlock(&j->lock);
        poll(p, 3, TICK_MS);
        uint64_t count;
        if (p[1].revents)
            (void)!read(j->wake_fd, &count, sizeof count);
        pthread_mutex_lock(&j->lock);
        read_all(j);
        if (p[2].revents)
            read_launcher(j);
        tick(j);
        write_all(j);
        stop = j->stop;
        pthread_mutex_unlock(&j->lock);
    }
    return NULL;
}

/* --- calls from job.c --- */

weft_status job_client_start(job *j)
{
    client *c = j->client = mem_alloc(sizeof *c);
    c->w.fd = -1;
    weft_status st = job_key_random((uint8_t *)&c->process, sizeof c->process);
    if (st == WEFT_OK)
        st = find_store(j);
    if (st != WEFT_OK)
        return st;
    c->met = true;
    return job_start_thread(j, stay);
}

void job_client_free(job *j)
{
    job_wire_close(&j->client->w);
    free(j->client);
    j->client = NULL;
}

void job_client_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                    uint64_t wait_ms)
{
    uint8_t head[2 + WIRE_KEY_MAX];
    size_t n = strlen(key);
    head[0] = (uint8_t)n;
    head[1] = (uint8_t)(n >> 8);
    memcpy(head + 2, key, n);
    uint32_t wait = wait_ms < UINT32_MAX ? (uint32_t)wait_ms : UINT32_MAX;
    job_wire_send2(&j->client->w, type, wait, j->box.seq, head, (uint32_t)n + 2, value,
                   (uint32_t)bytes);
    job_wake(j);
}

void job_client_bye(job *j, weft_status st, const char *text)
{
    if (!j->running)
        return;
    job_wire_send(&j->client->w, WIRE_BYE, (uint32_t)st, 0, text,
                  (uint32_t)strnlen(text, WIRE_TEXT - 1));
    j->drained = false;
    job_wake(j);
}
