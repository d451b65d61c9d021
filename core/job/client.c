/* job/client.c: ranks other than 0: the thread that serves the connection to the store.
 *
 * The caller of job_join() makes the connection (meet/meet.h); then the thread owns it. It carries
 * requests and answers, exchanges heartbeats (beats/beats.h), and monitors rank 0. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "job/beats/beats.h"
#include "job/control/progress.h"
#include "job/mailbox.h"
#include "job/meet/meet.h"
#include "job/roles.h"
#include "job/stop.h"
#include "job/wire/address.h"

struct job_client {
    job_wire w;
    job_beats *beats;
    bool met; /* rank 0 has welcomed us */
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
        (void)job_record_cause(j, e->rank, e->text, NULL);
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
    const job_client *c = j->client;
    if (rank)
        return (job_sign){.rank = rank, .seen = JOB_SEEN_UNKNOWN};
    return (job_sign){.seen = c->met ? JOB_SEEN_AT : JOB_SEEN_NEVER,
                      .step = c->beats->root.mark.step,
                      .place = c->beats->root.mark.place};
}

/* --- the thread --- */

static void lost(job *j)
{
    job_wire_close(&j->client->w);
    job_add_sign(j, 0, JOB_CAUSE_GONE, "is gone: its connection was closed without a message");
}

static bool take_stop(job *j, const job_wire_frame *f)
{
    const bool hold = f->type == WIRE_HOLD;
    if (f->bytes != (hold ? 0u : 8u))
        return false;
    const job_event e = hold ? job_agreement_hold(&j->halt, (int)f->arg)
                             : job_agreement_finish(&j->halt, (int)f->arg, job_wire_get64(f->body));
    act(j, &e);
    return true;
}

static bool take_joined(job *j, const job_wire_frame *f)
{
    job_place parent;
    if (j->joined || !job_wire_unpack_place(f, &parent))
        return false;
    job_beats_begin(j->client->beats, &parent);
    j->joined = true;
    job_notify(j);
    return true;
}

static bool take_frame(job *j, const job_wire_frame *f)
{
    const job_client *c = j->client;
    char text[WIRE_TEXT], ours[WIRE_TEXT + 32], *own;
    switch (f->type) {
    case WIRE_BEAT: return job_beats_take(c->beats, f);
    case WIRE_JOINED: return take_joined(j, f);
    case WIRE_REPLY: job_answer(j, f->seq, (weft_status)f->arg, f->body, f->bytes); return true;
    case WIRE_FAILURE:
        job_wire_text(f, text, sizeof text);
        snprintf(ours, sizeof ours, "this rank was given up: %s", text);
        own = f->seq && f->seq < strlen(text) ? text + f->seq : NULL;
        if (f->arg == j->who.rank)
            (void)job_record_cause(j, f->arg, ours, NULL);
        else
            (void)job_record_cause(j, f->arg, text, own);
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
    job_client *c = j->client;
    if (c->w.fd < 0)
        return;
    uint64_t before = job_tls_received(c->w.tls);
    job_wire_frame f;
    weft_status st;
    while ((st = job_wire_take(&c->w, &f)) == WEFT_OK)
        if (!take_frame(j, &f)) {
            job_add_sign(j, 0, JOB_CAUSE_SURE, "broke the protocol of the store");
            job_wire_close(&c->w);
            return;
        }
    if (job_tls_received(c->w.tls) != before)
        job_beats_root_seen(c->beats);
    if (st != WEFT_BUSY)
        lost(j);
}

static void tick(job *j)
{
    const job_client *c = j->client;
    uint64_t silent;
    if (c->w.fd >= 0 && job_beats_turn(c->beats, &silent)) {
        char text[96];
        snprintf(text, sizeof text, JOB_FROZEN, (double)silent / 1000);
        job_add_sign(j, 0, JOB_CAUSE_SURE, text);
    }
    job_check_due(j);
    job_request_stop(j, job_stop_asked());
    job_stop_end_overdue(j);
}

static void write_all(job *j)
{
    job_client *c = j->client;
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

/* Milliseconds until something is due. */
static int sleep_ms(const job *j)
{
    return j->candidate.weight || j->halt.since ? TICK_MS : job_beats_sleep(j->client->beats);
}

static void turn(job *j, bool readable, bool launcher)
{
    awake_look(&j->clock, clock_ms());
    job_progress_sign(j->silence_ms, true);
    if (readable)
        read_all(j);
    if (launcher)
        job_read_launcher(j);
    tick(j);
    write_all(j);
}

static void *serve(void *arg)
{
    job *j = arg;
    const job_client *c = j->client;
    job_stop_wake(j->wake_fd);
    for (bool stop = false, first = true; !stop; first = false) {
        pthread_mutex_lock(&j->lock);
        bool writes = c->w.fd >= 0 && (job_wire_unsent(&c->w) || job_tls_wants(c->w.tls) == 2);
        struct pollfd p[4] = {
            {.fd = c->w.fd, .events = (short)(POLLIN | (writes ? POLLOUT : 0))},
            {.fd = j->wake_fd, .events = POLLIN},
            {.fd = j->control_fd, .events = POLLIN},
            {.fd = c->beats->epoll_fd, .events = POLLIN},
        };
        const int ms = first ? 0 : sleep_ms(j);
        pthread_mutex_unlock(&j->lock);
        poll(p, 4, ms);
        uint64_t count;
        if (p[1].revents)
            (void)!read(j->wake_fd, &count, sizeof count);
        pthread_mutex_lock(&j->lock);
        turn(j, first || p[0].revents, p[2].revents != 0);
        stop = j->stop;
        pthread_mutex_unlock(&j->lock);
    }
    job_stop_wake(-1);
    return NULL;
}

/* --- calls from job.c --- */

weft_status job_client_start(job *j)
{
    job_client *c = j->client = mem_alloc(sizeof *c);
    c->w.fd = -1;
    j->act = act;
    j->sign_of = sign_of;
    weft_status st = job_beats_open(j, &c->w, &c->beats);
    if (st == WEFT_OK)
        st = job_meet_rank0(c->beats);
    if (st != WEFT_OK)
        return st;
    c->met = true;
    if (!*j->who.address)
        (void)job_address_of_socket(c->w.fd, j->who.address, sizeof j->who.address);
    return job_start_thread(j, serve);
}

void job_client_free(job *j)
{
    job_beats_close(j->client->beats);
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
