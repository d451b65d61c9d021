/* job/server.c: rank 0's thread: admits ranks to the store.
 *
 * A connection is a stranger until it has finished the TLS handshake with the job key and sent a
 * valid hello. A stranger's resources are bounded: one of 24 places, 2 s, 2 KiB read, a small
 * receive buffer in the kernel, and a TLS session only once it has sent something. When all places
 * are taken, the oldest stranger that has not finished its handshake within 25 ms is evicted, so
 * idle or slow connections block nobody; the rest waits in the kernel. An evicted rank tries again.
 * Each connection has its own key (wire/handshake.h), so a recorded handshake cannot be replayed.
 * Once all ranks have joined, the listener is closed for good. */
#define _GNU_SOURCE
#include "job/server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "job/launch/control.h"
#include "job/mailbox.h"
#include "job/members.h"
#include "job/restart/progress.h"
#include "job/wire/address.h"
#include "job/wire/key.h"

#define EVENTS 64

/* epoll data of the descriptors that are not peers */
static char at_door, at_wake, at_launcher;

static void drop(peer *p)
{
    job_wire_close(&p->w); /* closing the descriptor removes it from epoll */
    p->interest = 0;
}

static void watch_door(server *s, bool on)
{
    if (s->listen_fd < 0 || on == s->listening)
        return;
    struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.ptr = &at_door};
    if (!epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listen_fd, &e))
        s->listening = on;
}

static void close_door(server *s)
{
    for (int i = 0; i < STRANGERS_MAX; i++)
        drop(s->strangers[i]);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    s->listen_fd = -1;
}

/* A free place, or that of the oldest stranger without a finished handshake; NULL: all are too
 * young. */
static peer *find_place(server *s, uint64_t now)
{
    peer *oldest = NULL;
    for (int i = 0; i < STRANGERS_MAX; i++) {
        peer *p = s->strangers[i];
        if (p->w.fd < 0)
            return p;
        if (!(p->w.tls && job_tls_shaken(p->w.tls)) && (!oldest || p->since < oldest->since))
            oldest = p;
    }
    return oldest && now - oldest->since >= STRANGER_AGE ? oldest : NULL;
}

static void let_in(job *j)
{
    server *s = j->server;
    while (s->listen_fd >= 0) {
        uint64_t now = clock_ms();
        peer *p = find_place(s, now);
        int fd = p ? accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;
        if (!p || (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED))
            watch_door(s, false); /* the next tick checks again */
        if (fd < 0)
            return;
        if (p->w.fd >= 0)
            s->turned_away++;
        drop(p);
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        job_wire_hold(&p->w, fd);
        p->since = now;
        if (job_handshake_send(&p->hail, fd, j->sealed) != WEFT_OK) {
            drop(p);
            continue;
        }
        job_members_watch(j, p);
    }
}

/* --- hello --- */

/* The ranks were started inconsistently, as the hello of a process with the job key shows. Ranks
 * that have joined get the reason now, the others when they connect. */
static void give_up_meeting(job *j, const job_wire_hello *h, const char *why)
{
    const uint32_t rank = h->rank < j->who.ranks ? h->rank : 0;
    member *m = &j->server->members[rank];
    job_server_declare(j, rank, why);
    m->told = true;
}

/* WEFT_USAGE: the rank itself was started with wrong values. WEFT_PEER: the job has failed. */
static void refuse(job *j, peer *p, weft_status st, const char *text)
{
    if (st != WEFT_PEER)
        log_line(WEFT_LOG_WARN, "a rank was refused: %s", text);
    job_wire_send(&p->w, WIRE_REFUSED, (uint32_t)st, 0, text, (uint32_t)strlen(text));
    (void)!job_wire_flush(&p->w); /* an empty socket buffer takes so little at once */
    shutdown(p->w.fd, SHUT_WR);
    drop(p);
    job_notify(j);
}

/* A process of another run of the job that still tries to connect. It is rejected, and the job
 * waits for the right one. */
static bool is_left_over(const job *j, const job_wire_hello *h, char *why, size_t bytes)
{
    if (h->launch == j->who.launch || !h->launch || !j->who.launch)
        return false;
    snprintf(why, bytes,
             "this process, as rank %u, was started for another run of the job than rank 0: the "
             "run numbers of the launcher differ; end processes that are left from earlier runs",
             h->rank);
    return true;
}

/* A rank that is left from an older attempt is fenced: it learns the newest number and ends. A rank
 * of a newer attempt shows that ours is over. */
static bool is_other_attempt(job *j, peer *p, const job_wire_hello *h)
{
    const uint32_t own = job_attempt_number(), newest = h->attempt > own ? h->attempt : own;
    if (!h->attempt || h->attempt == own || h->attempt > ATTEMPTS_MAX)
        return false;
    if (newest > own) {
        char why[WIRE_TEXT];
        snprintf(why, sizeof why, "attempt %u of this job has begun, so attempt %u is over", newest,
                 own);
        job_progress_hear(newest);
        give_up_meeting(j, h, why);
    }
    job_wire_send(&p->w, WIRE_ATTEMPT, newest, 0, NULL, 0);
    (void)!job_wire_flush(&p->w);
    shutdown(p->w.fd, SHUT_WR);
    drop(p);
    return true;
}

/* A retry by the process that was admitted as this rank and does not know it. */
static bool is_again(const member *m, const job_wire_hello *h)
{
    return m->joined && !m->confirmed && m->process == h->process;
}

static bool hello_fits(job *j, const job_wire_hello *h, char *why, size_t bytes)
{
    char version[WIRE_VERSION];
    job_wire_version(version);
    why[0] = 0;
    if (strcmp(h->version, version) != 0)
        snprintf(why, bytes, "rank %u runs another weft (%s) than rank 0 (%s)", h->rank, h->version,
                 version);
    else if (atomic_load(&j->failed))
        snprintf(why, bytes, "%.1000s", j->failure);
    else if (h->ranks != j->who.ranks)
        snprintf(why, bytes, "rank %u was started for a job of %u ranks, rank 0 for one of %u",
                 h->rank, h->ranks, j->who.ranks);
    else if (h->rank >= j->who.ranks ||
             (j->server->members[h->rank].joined && !is_again(&j->server->members[h->rank], h)))
        snprintf(why, bytes,
                 "rank %u is in the job already: two processes were started with the "
                 "same rank",
                 h->rank);
    return !why[0];
}

static void all_met(job *j)
{
    server *s = j->server;
    for (uint32_t r = 1; r < j->who.ranks; r++)
        job_wire_send(&s->members[r].p->w, WIRE_JOINED, 0, 0, NULL, 0);
    close_door(s);
    j->joined = true;
    job_notify(j);
}

static void check_met(job *j)
{
    if (!j->joined && j->server->confirmed == j->who.ranks && !atomic_load(&j->failed))
        all_met(j);
}

bool job_server_all_told(const job *j)
{
    const server *s = j->server;
    for (uint32_t r = 0; r < j->who.ranks; r++)
        if (!s->members[r].joined && !s->members[r].told)
            return false;
    return true;
}

static void admit(job *j, int place, const job_wire_hello *h)
{
    server *s = j->server;
    peer *p = s->strangers[place];
    member *m = &s->members[h->rank];
    s->strangers[place] =
        m->p ? m->p : mem_alloc(sizeof *p); /* that of an attempt that has ended */
    if (m->p)
        drop(m->p);
    *s->strangers[place] = (peer){.w.fd = -1};
    p->admitted = true;
    p->rank = h->rank;
    p->w.limit = WIRE_BODY_MAX;
    job_listen_admitted(p->w.fd);
    *m = (member){.p = p, .joined = true, .process = h->process, .alive = j->clock.ms};
    memcpy(m->host, h->host, sizeof m->host);
    s->hosts |= *m->host && strcmp(m->host, s->members[0].host) != 0;
    job_wire_send(&p->w, WIRE_WELCOME, 0, 0, j->meeting, sizeof j->meeting);
    job_member_event(j, p); /* it may already have sent more */
}

static void name_peer(const peer *p, char *out, size_t bytes)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getpeername(p->w.fd, (struct sockaddr *)&a, &n) ||
        getnameinfo((struct sockaddr *)&a, n, out, (socklen_t)bytes, NULL, 0, NI_NUMERICHOST))
        out[0] = 0;
}

/* The first bytes have arrived: now allocate a session. */
static weft_status begin_session(job *j, peer *p)
{
    uint8_t psk[KEY_BYTES];
    weft_status st = job_handshake_key(&p->hail, j->key, psk);
    if (st == WEFT_OK)
        st = job_wire_open(&p->w, j->tls, p->w.fd, true, psk);
    explicit_bzero(psk, sizeof psk);
    return st;
}

static void stranger_event(job *j, int place)
{
    server *s = j->server;
    peer *p = s->strangers[place];
    weft_status st = p->w.tls ? WEFT_OK : begin_session(j, p);
    if (st == WEFT_OK)
        st = job_tls_handshake(p->w.tls);
    job_wire_frame f;
    job_wire_hello h;
    if (st == WEFT_OK)
        st = job_wire_take(&p->w, &f);
    if (st == WEFT_BUSY) {
        job_members_watch(j, p);
        return;
    }
    char why[WIRE_TEXT];
    if (st != WEFT_OK || !job_wire_unpack_hello(&f, &h)) {
        s->turned_away++;
        if (st != WEFT_OK && !(p->w.tls && job_tls_lost(p->w.tls)))
            name_peer(p, s->last_away, sizeof s->last_away);
        log_line(WEFT_LOG_DEBUG, "a connection to the store was dropped: %s",
                 st != WEFT_OK ? err_text() : "its first frame is not a hello");
        drop(p);
    } else if (is_other_attempt(j, p, &h)) {
        job_notify(j);
    } else if (is_left_over(j, &h, why, sizeof why)) {
        refuse(j, p, WEFT_USAGE, why);
    } else if (hello_fits(j, &h, why, sizeof why)) {
        admit(j, place, &h);
    } else {
        const bool failed = atomic_load(&j->failed);
        give_up_meeting(j, &h, why);
        refuse(j, p, failed ? WEFT_PEER : WEFT_USAGE, why);
    }
}

/* --- the thread --- */

static void tick(job *j)
{
    server *s = j->server;
    uint64_t now = clock_ms();
    awake_tick(&j->clock);
    for (int i = 0; i < STRANGERS_MAX; i++) {
        peer *p = s->strangers[i];
        if (p->w.fd >= 0 && now - p->since >= STRANGER_MS) {
            s->turned_away++;
            drop(p);
        }
    }
    watch_door(s, true);
    job_members_tick(j);
    job_members_decide(j);
    job_store_tick(s->store, now);
    job_gathers_tick(s->gathers, now);
    job_members_judge(j);
}

static void handle(job *j, void *what)
{
    server *s = j->server;
    if (what == &at_door) {
        let_in(j);
    } else if (what == &at_launcher) {
        job_members_read_launcher(j);
        if (j->control_fd < 0)
            epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, job_control_descriptor(), NULL);
    } else if (what == &at_wake) {
        uint64_t count;
        (void)!read(j->wake_fd, &count, sizeof count);
    } else {
        peer *p = what;
        for (int i = 0; i < STRANGERS_MAX; i++)
            if (s->strangers[i] == p && p->w.fd >= 0) {
                stranger_event(j, i);
                return;
            }
        if (p->w.fd >= 0)
            job_member_event(j, p);
    }
}

static void *serve(void *arg)
{
    job *j = arg;
    struct epoll_event events[EVENTS];
    for (bool stop = false; !stop;) {
        int n = epoll_wait(j->server->epoll_fd, events, EVENTS,
                           j->server->listening ? TICK_MS : STRANGER_AGE);
        pthread_mutex_lock(&j->lock);
        for (int i = 0; i < n; i++) {
            handle(j, events[i].data.ptr);
            check_met(j);
        }
        tick(j);
        job_members_flush(j);
        check_met(j);
        stop = j->stop;
        pthread_mutex_unlock(&j->lock);
    }
    return NULL;
}

static weft_status watch(server *s, int fd, void *what)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = what};
    if (fd < 0 || !epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e))
        return WEFT_OK;
    return err_fail_errno(WEFT_IO, "rank 0 cannot watch descriptor %d", fd);
}

/* One descriptor per rank, and some for the rest of the program. */
static void raise_limit(uint32_t ranks)
{
    struct rlimit limit;
    rlim_t need = (rlim_t)ranks + 512;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
        return;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void prepare(job *j, server *s)
{
    s->listen_fd = s->epoll_fd = -1;
    s->store = job_store_open(j->who.ranks, job_members_reply, j);
    s->gathers = job_gathers_open(j->who.ranks, job_members_reply, j);
    s->members = mem_alloc((uint64_t)j->who.ranks * sizeof *s->members);
    s->members[0].joined = true;
    job_wire_host(s->members[0].host);
    s->members[0].confirmed = true;
    s->confirmed = 1;
    for (int i = 0; i < STRANGERS_MAX; i++) {
        s->strangers[i] = mem_alloc(sizeof *s->strangers[i]);
        s->strangers[i]->w.fd = -1;
    }
}

weft_status job_server_start(job *j)
{
    server *s = j->server = mem_alloc(sizeof *s);
    prepare(j, s);
    if (j->who.ranks == 1) {
        j->joined = true;
        return WEFT_OK; /* only the table, used in the same process */
    }
    weft_status st = job_listen_open(&j->who, &s->listen_fd);
    if (st != WEFT_OK)
        return st;
    raise_limit(j->who.ranks);
    s->listening = true;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll_fd < 0)
        return err_fail_errno(WEFT_IO, "rank 0 cannot watch its connections");
    if ((st = watch(s, s->listen_fd, &at_door)) != WEFT_OK ||
        (st = watch(s, j->wake_fd, &at_wake)) != WEFT_OK ||
        (st = watch(s, j->control_fd, &at_launcher)) != WEFT_OK)
        return st;
    return job_start_thread(j, serve);
}

void job_server_free(job *j)
{
    server *s = j->server;
    close_door(s);
    for (int i = 0; i < STRANGERS_MAX; i++)
        free(s->strangers[i]);
    for (uint32_t r = 0; r < j->who.ranks; r++)
        if (s->members[r].p) {
            drop(s->members[r].p);
            free(s->members[r].p);
        }
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    job_store_close(s->store);
    job_gathers_close(s->gathers);
    free(s->members);
    free(s);
    j->server = NULL;
}
