/* job/meet/meet.c: see meet.h. */
#define _GNU_SOURCE
#include "job/meet/meet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "job/control/progress.h"
#include "job/mailbox.h"
#include "job/stop.h"
#include "job/wire/endpoint.h"
#include "job/wire/handshake.h"
#include "job/wire/resolve.h"

#define WAIT_MS 500     /* longest sleep before the thread of the job runs */
#define ATTEMPT_MS 3000 /* until the greeting, 1 ms more for each rank; then until the welcome */

/* A request to stop before the job has met. Rank 0 can be told only when it has welcomed this rank,
 * so the attempts to reach it go on for a while. */
static void stop_unmet(job *j)
{
    const int number = job_stop_asked();
    if (!number || atomic_load(&j->failed))
        return;
    j->asked = j->asked ? j->asked : awake_ms();
    const uint64_t waited = awake_ms() - j->asked;
    if (j->control_fd >= 0 && (j->server || waited >= STOP_GRACE_MS))
        job_stop_act(j, &(job_event){.kind = JOB_EVENT_END_WAITS, .number = number});
    else if (j->control_fd < 0 && waited >= STOP_MEET_MS)
        job_stop_unmet(j, number,
                       j->server ? "rank 0 has no address yet" : "rank 0 did not answer");
}

/* Wait for poll()'s `events` of `fd` (-1: only wait) until awake_ms() is `until`; reports of the
 * launcher and signals end it. A signal interrupts poll(); one that comes just before it is noticed
 * at its end. WEFT_OK: ready; WEFT_BUSY: timeout; WEFT_PEER: the job has failed. */
static weft_status wait_unmet(job *j, int fd, short events, uint64_t until)
{
    for (;;) {
        uint64_t now = awake_ms();
        const uint64_t max = j->server || j->candidate.weight ? TICK_MS : WAIT_MS;
        int left = now >= until ? 0 : until - now < max ? (int)(until - now) : (int)max;
        struct pollfd p[2] = {{.fd = fd, .events = events},
                              {.fd = j->control_fd, .events = POLLIN}};
        int n = poll(p, 2, left);
        pthread_mutex_lock(&j->lock);
        if (n > 0 && p[1].revents)
            job_read_launcher(j);
        job_check_due(j);
        stop_unmet(j);
        job_progress_sign(j->silence_ms, false);
        pthread_mutex_unlock(&j->lock);
        if (atomic_load(&j->failed))
            return job_fail_here(j);
        if (n > 0 && p[0].revents)
            return WEFT_OK;
        if (awake_ms() >= until)
            return WEFT_BUSY;
    }
}

weft_status job_meet_wait_readable(void *j, int fd, uint64_t until)
{
    return wait_unmet(j, fd, POLLIN, until);
}

static weft_status connect_one(job_beats *b, const struct addrinfo *a, uint64_t until, int *out)
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
        if (error == EINPROGRESS && (st = wait_unmet(b->j, fd, POLLOUT, until)) == WEFT_OK)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n);
    }
    if (st == WEFT_OK && error == ENETUNREACH && job_endpoint_is_loopback(a->ai_addr))
        st = err_fail(WEFT_ABSENT, "the loopback interface of this machine is down, as it is in a "
                                   "new network namespace; type: ip link set lo up");
    else if (st == WEFT_OK && error)
        st = err_fail(WEFT_IO, "%s", strerror(error));
    if (st == WEFT_BUSY)
        st = err_fail(WEFT_IO, "no answer");
    if (st != WEFT_OK)
        close(fd);
    else
        *out = fd;
    return st;
}

/* Wait for the socket events that the session needs; a timeout is WEFT_IO, which is retried. */
static weft_status wait_session(job_beats *b, uint64_t until)
{
    const short events = job_tls_wants(b->store->tls) == 2 ? POLLOUT : POLLIN;
    weft_status st = wait_unmet(b->j, b->store->fd, events, until);
    return st == WEFT_BUSY ? err_fail(WEFT_IO, "it accepts connections but sends nothing") : st;
}

static weft_status shake(job_beats *b, uint64_t until)
{
    const job_identity *who = &b->j->who;
    weft_status st;
    while ((st = job_tls_handshake(b->store->tls)) == WEFT_BUSY)
        if ((st = wait_session(b, until)) != WEFT_OK)
            return st;
    if (st != WEFT_OK && job_tls_lost(b->store->tls))
        return err_fail(WEFT_IO, "it closed the connection");
    if (st != WEFT_OK)
        err_context("rank %u was not let into the job at %s port %u", who->rank, who->addr,
                    who->port);
    return st;
}

/* WEFT_IO, which is retried: rank 0 has learned from us that its attempt is over. */
static weft_status other_attempt(uint32_t newest)
{
    const uint32_t own = job_attempt_number();
    if (newest <= own)
        return err_fail(WEFT_IO, "rank 0 is still in an attempt before attempt %u", own);
    job_progress_receive(newest);
    return err_fail(WEFT_PEER,
                    "attempt %u of this job has begun, and this process is of attempt %u", newest,
                    own);
}

/* The other ranks have been asked to stop, and so is this one. */
static weft_status stop_too(job *j, int number)
{
    pthread_mutex_lock(&j->lock);
    job_stop_act(j, &(job_event){.kind = JOB_EVENT_END_WAITS, .number = number});
    pthread_mutex_unlock(&j->lock);
    return job_fail_here(j);
}

static weft_status welcome(job_beats *b, uint64_t until)
{
    job *j = b->j;
    job_wire *w = b->store;
    job_wire_frame f;
    weft_status st;
    job_place at;
    w->limit = WIRE_TEXT;
    job_beats_listen(b, &at);
    job_handshake_hello(w, &j->who, b->process, &at);
    while ((st = job_wire_flush(w)) == WEFT_BUSY ||
           (st == WEFT_OK && (st = job_wire_take(w, &f)) == WEFT_BUSY))
        if ((st = wait_session(b, until)) != WEFT_OK)
            return st;
    if (st != WEFT_OK)
        return job_tls_lost(w->tls) ? err_fail(WEFT_IO, "it closed the connection") : st;
    if (f.type == WIRE_WELCOME && f.bytes == MEETING_BYTES) {
        memcpy(j->meeting, f.body, MEETING_BYTES);
        w->limit = WIRE_BODY_MAX;
        /* after this frame the store counts the rank as confirmed */
        uint8_t mark[BEAT_UP_BYTES];
        job_beats_mark(b, mark);
        job_wire_send(w, WIRE_BEAT, 0, 0, mark, sizeof mark);
        st = job_wire_flush(w);
        return st == WEFT_BUSY ? WEFT_OK : st;
    }
    char why[WIRE_TEXT];
    if (f.type == WIRE_ATTEMPT)
        return other_attempt(f.arg);
    if (f.type == WIRE_LAST)
        return stop_too(j, job_agreement_signal((int)f.arg));
    if (f.type != WIRE_REFUSED)
        return err_fail(WEFT_DATA, "rank 0 answered the hello of rank %u with a frame of type %u",
                        j->who.rank, f.type);
    job_wire_text(&f, why, sizeof why);
    return f.arg == WEFT_PEER ? err_fail(WEFT_PEER, "%s", why)
                              : err_fail(WEFT_USAGE, "rank 0 refused this rank: %s", why);
}

/* Read the greeting and start the session. */
static weft_status begin_session(job_beats *b, uint64_t until)
{
    job *j = b->j;
    job_greeting g = {.got = 0};
    weft_status st;
    while ((st = job_handshake_read(&g, b->store->fd)) == WEFT_BUSY)
        if ((st = wait_unmet(j, b->store->fd, POLLIN, until)) != WEFT_OK)
            break;
    if (st == WEFT_BUSY)
        st = err_fail(WEFT_IO, "it accepts connections but sends nothing");
    else if (st == WEFT_USAGE)
        err_context("rank %u asked for the job at %s port %u", j->who.rank, j->who.addr,
                    j->who.port);
    if (st == WEFT_OK && j->key_comes)
        st = job_munge_open(job_handshake_sealed(&g), j->key); /* the last one may be old */
    return st == WEFT_OK ? job_handshake_open(&g, j->key, j->tls, false, b->store) : st;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One attempt at one address. WEFT_IO: try again. The timeout restarts at the greeting: before it
 * the connection waits in the backlog of rank 0's kernel, behind those of any number of ranks. */
static weft_status attempt(job_beats *b, const struct addrinfo *a, uint64_t deadline)
{
    uint64_t until = earlier(awake_ms() + ATTEMPT_MS + b->j->who.ranks, deadline);
    int fd = -1;
    weft_status st = connect_one(b, a, until, &fd);
    if (st != WEFT_OK)
        return st;
    job_wire_hold(b->store, fd);
    st = begin_session(b, until);
    until = earlier(awake_ms() + ATTEMPT_MS, deadline);
    if (st == WEFT_OK)
        st = shake(b, until);
    if (st == WEFT_OK)
        st = welcome(b, until);
    if (st != WEFT_OK)
        job_wire_close(b->store);
    return st;
}

weft_status job_meet_rank0(job_beats *b)
{
    const job *j = b->j;
    const uint64_t deadline = awake_ms() + j->join_ms;
    job_resolver r = {
        .who = &j->who, .deadline = deadline, .wait = job_meet_wait_readable, .ctx = b->j};
    const struct addrinfo *a = NULL;
    weft_status st;
    while ((st = job_resolver_next(&r, &a)) == WEFT_OK)
        if ((st = attempt(b, a, deadline)) != WEFT_IO || awake_ms() >= deadline)
            break;
    job_resolver_end(&r);
    if (st == WEFT_IO) {
        err_context("rank %u did not reach rank 0 at %s port %u within %.0f s", j->who.rank,
                    j->who.addr, j->who.port, (double)j->join_ms / 1000);
        return WEFT_PEER;
    }
    return st;
}
