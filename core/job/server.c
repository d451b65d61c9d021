/* job/server.c: rank 0's thread: admits ranks to the store.
 *
 * A connection is admitted when its first frame is a valid hello (wire/door.h). Once all ranks have
 * joined, the listener is closed for good. What all ranks have to be looked at for is done every
 * TICK_MS, not in each turn of the loop, so that a turn costs what its events cost. */
#define _GNU_SOURCE
#include "job/roles.h"

#include <errno.h>
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
#include "job/control/control.h"
#include "job/control/progress.h"
#include "job/mailbox.h"
#include "job/meet/meet.h"
#include "job/members.h"
#include "job/stop.h"
#include "job/wire/address.h"

#define EVENTS 64

/* epoll data of the descriptors that are neither the door nor peers */
static char at_wake, at_launcher;

/* --- hello --- */

/* The ranks were started inconsistently, as the hello of a process with the job key shows. Ranks
 * that have joined get the reason now, the others when they connect. */
static void give_up_meeting(job *j, const job_wire_hello *h, const char *why)
{
    const uint32_t rank = h->rank < j->who.ranks ? h->rank : 0;
    job_member *m = &j->server->members[rank];
    job_server_declare(j, rank, why, NULL);
    m->informed = true;
}

/* Send the only frame that a process which is not admitted gets, and close its connection. */
static void answer_once(job *j, job_peer *p, uint32_t type, uint32_t arg, const void *body,
                        uint32_t bytes)
{
    job_wire_send(&p->w, type, arg, 0, body, bytes);
    (void)!job_wire_flush(&p->w); /* an empty socket buffer takes so little at once */
    shutdown(p->w.fd, SHUT_WR);
    job_peer_drop(p);
    job_notify(j);
}

/* WEFT_USAGE: the rank itself was started with wrong values. WEFT_PEER: the job has failed. */
static void refuse(job *j, job_peer *p, weft_status st, const char *text)
{
    if (st != WEFT_PEER)
        log_line(WEFT_LOG_WARN, "a rank was refused: %s", text);
    answer_once(j, p, WIRE_REFUSED, (uint32_t)st, text, (uint32_t)strlen(text));
}

/* The job was asked to stop before this rank came: the rank stops as the others do. */
static void stop_late(job *j, job_peer *p)
{
    uint8_t none[8];
    job_wire_put64(none, 0);
    answer_once(j, p, WIRE_LAST, (uint32_t)j->halt.number, none, sizeof none);
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
static bool is_other_attempt(job *j, job_peer *p, const job_wire_hello *h)
{
    const uint32_t own = job_attempt_number(), newest = h->attempt > own ? h->attempt : own;
    if (!h->attempt || h->attempt == own || h->attempt > ATTEMPTS_MAX)
        return false;
    if (newest > own) {
        char why[WIRE_TEXT];
        snprintf(why, sizeof why, "attempt %u of this job has begun, so attempt %u is over", newest,
                 own);
        job_progress_receive(newest);
        give_up_meeting(j, h, why);
    }
    answer_once(j, p, WIRE_ATTEMPT, newest, NULL, 0);
    return true;
}

/* A retry by the process that was admitted as this rank and does not know it. */
static bool is_again(const job_member *m, const job_wire_hello *h)
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
    job_server *s = j->server;
    uint8_t body[JOINED_BYTES];
    for (uint32_t r = 1; r < j->who.ranks; r++) {
        job_wire_pack_place(&s->members[job_tree_parent(&s->tree, r)].at, body);
        job_members_send(j, s->members[r].p, WIRE_JOINED, 0, 0, body, sizeof body);
    }
    job_door_close(&s->door);
    j->joined = true;
    job_notify(j);
}

static void check_met(job *j)
{
    if (!j->joined && j->server->confirmed == j->who.ranks && !atomic_load(&j->failed))
        all_met(j);
}

bool job_server_all_notified(const job *j)
{
    const job_server *s = j->server;
    for (uint32_t r = 0; r < j->who.ranks; r++)
        if (!s->members[r].joined && !s->members[r].informed)
            return false;
    return true;
}

static void admit(job *j, int place, const job_wire_hello *h)
{
    job_server *s = j->server;
    job_member *m = &s->members[h->rank];
    if (m->p) { /* that of an attempt that has ended */
        s->open -= m->p->w.fd >= 0;
        job_peer_drop(m->p);
    }
    job_peer *p = job_door_admit(&s->door, place, h->rank, m->p);
    s->open++;
    p->w.limit = WIRE_BODY_MAX;
    job_listen_admitted(p->w.fd);
    if (!*j->who.address && !job_address_is_loopback(p->w.fd)) /* it listens at several */
        (void)job_address_of_socket(p->w.fd, j->who.address, sizeof j->who.address);
    *m = (job_member){.p = p,
                      .posted = m->posted,
                      .joined = true,
                      .process = h->process,
                      .at = h->at,
                      .guard.last_seen = j->clock.sum};
    memcpy(m->host, h->host, sizeof m->host);
    s->hosts |= *m->host && strcmp(m->host, s->members[0].host) != 0;
    job_members_send(j, p, WIRE_WELCOME, 0, 0, j->meeting, sizeof j->meeting);
    if (j->halt.held)
        job_members_send(j, p, WIRE_HOLD, (uint32_t)j->halt.number, 0, NULL, 0);
    job_member_event(j, p); /* it may already have sent more */
}

static void stranger_event(job *j, int place)
{
    job_server *s = j->server;
    job_peer *p = s->door.strangers[place];
    job_wire_frame f;
    job_wire_hello h;
    char why[WIRE_TEXT];
    if (job_door_advance(&s->door, place, &f) != WEFT_OK)
        return;
    if (!job_wire_unpack_hello(&f, &h)) {
        job_door_turn_away(&s->door, place, "its first frame is not a hello");
    } else if (is_other_attempt(j, p, &h)) {
        return;
    } else if (is_left_over(j, &h, why, sizeof why)) {
        refuse(j, p, WEFT_USAGE, why);
    } else if (hello_fits(j, &h, why, sizeof why)) {
        admit(j, place, &h);
    } else {
        const bool failed = atomic_load(&j->failed);
        give_up_meeting(j, &h, why);
        if (job_stop_declared())
            stop_late(j, p);
        else
            refuse(j, p, failed ? WEFT_PEER : WEFT_USAGE, why);
    }
}

/* --- the thread --- */

/* The door is ajar when all of its places are taken; closed, it needs no time. */
static int wait_ms(const job_server *s)
{
    return s->door.listening || !s->door.sockets ? TICK_MS : STRANGER_AGE;
}

static void tick(job *j)
{
    job_server *s = j->server;
    const uint64_t now = awake_ms();
    job_door_turn(&s->door);
    if (now - s->ticked >= TICK_MS) {
        s->ticked = now;
        job_progress_sign(j->silence_ms, true);
        job_members_tick(j);
        job_store_tick(s->store, now);
        job_gathers_tick(s->gathers, now);
    }
    job_members_decide(j);
    job_check_due(j);
}

static void handle(job *j, void *what)
{
    job_server *s = j->server;
    if (what == &s->door) {
        job_door_let_in(&s->door);
    } else if (what == &at_launcher) {
        job_read_launcher(j);
        if (j->control_fd < 0)
            epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, job_control_descriptor(), NULL);
    } else if (what == &at_wake) {
        uint64_t count;
        (void)!read(j->wake_fd, &count, sizeof count);
    } else {
        job_peer *p = what;
        const int place = job_door_place(&s->door, p);
        if (place >= 0)
            stranger_event(j, place);
        else if (p->w.fd >= 0)
            job_member_event(j, p);
    }
}

static void *serve(void *arg)
{
    job *j = arg;
    struct epoll_event events[EVENTS];
    for (bool stop = false; !stop;) {
        int n = epoll_wait(j->server->epoll_fd, events, EVENTS, wait_ms(j->server));
        pthread_mutex_lock(&j->lock);
        awake_look(&j->clock, clock_ms());
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

static weft_status watch(job_server *s, int fd, void *what)
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

static void prepare(job *j, job_server *s)
{
    s->epoll_fd = -1;
    s->tree = (job_tree){j->who.ranks, job_tree_fanout};
    s->store = job_store_open(j->who.ranks, job_members_reply, j);
    s->gathers = job_gathers_open(j->who.ranks, job_members_reply, j);
    s->members = mem_alloc((uint64_t)j->who.ranks * sizeof *s->members);
    s->members[0].joined = true;
    job_wire_host(s->members[0].host);
    s->members[0].confirmed = true;
    s->confirmed = 1;
    s->posted = mem_alloc((uint64_t)j->who.ranks * sizeof *s->posted);
    s->other = mem_alloc((uint64_t)j->who.ranks * sizeof *s->other);
    job_door_prepare(&s->door, j->tls, j->key, j->sealed);
}

weft_status job_server_start(job *j)
{
    job_server *s = j->server = mem_alloc(sizeof *s);
    prepare(j, s);
    j->act = job_members_act;
    j->sign_of = job_members_sign;
    if (j->who.ranks == 1) {
        j->joined = true;
        return WEFT_OK; /* only the table, used in the same process */
    }
    job_resolver r = {.who = &j->who,
                      .deadline = awake_ms() + j->join_ms,
                      .wait = job_meet_wait_readable,
                      .ctx = j};
    weft_status st = job_listen_open(&r, &s->door);
    if (st != WEFT_OK)
        return st;
    if (!*j->who.address && s->door.sockets == 1)
        (void)job_address_of_socket(s->door.listens[0], j->who.address, sizeof j->who.address);
    raise_limit(j->who.ranks);
    s->epoll_fd = s->door.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll_fd < 0)
        return err_fail_errno(WEFT_IO, "rank 0 cannot watch its connections");
    if ((st = job_door_watch(&s->door)) != WEFT_OK ||
        (st = watch(s, j->wake_fd, &at_wake)) != WEFT_OK ||
        (st = watch(s, j->control_fd, &at_launcher)) != WEFT_OK)
        return st;
    return job_start_thread(j, serve);
}

void job_server_free(job *j)
{
    job_server *s = j->server;
    job_door_free(&s->door);
    for (uint32_t r = 0; r < j->who.ranks; r++)
        if (s->members[r].p) {
            job_peer_drop(s->members[r].p);
            free(s->members[r].p);
        }
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    job_store_close(s->store);
    job_gathers_close(s->gathers);
    free(s->posted);
    free(s->other);
    free(s->members);
    free(s);
    j->server = NULL;
}
