/* job/members.c: the ranks that were let in: their requests, their health, their goodbyes. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "job/server.h"
#include "job/wire/address.h"

#define BACKLOG_MAX 4096 /* bytes that may wait for a rank when it asks for more */

bool server_seen(job *j, uint32_t rank, uint64_t *step, uint64_t *place)
{
    const member *m = &j->server->members[rank];
    *step = m->step;
    *place = m->place;
    return m->joined;
}

bool server_left(job *j, uint32_t rank)
{
    return j->server->members[rank].bye;
}

void server_missing(job *j, char *out, uint32_t bytes)
{
    const server *s = j->server;
    uint32_t listed = 0, missing = j->who.ranks - s->confirmed;
    size_t n = 0;
    out[0] = 0;
    for (uint32_t r = 0; r < j->who.ranks && listed < 8 && n < bytes; r++)
        if (!s->members[r].confirmed)
            n += (size_t)snprintf(out + n, bytes - n, "%srank %u", listed++ ? ", " : "", r);
    if (missing > listed && n < bytes)
        n += (size_t)snprintf(out + n, bytes - n, " and %u more", missing - listed);
    if (s->turned_away && n < bytes)
        snprintf(out + n, bytes - n,
                 " (%llu connections were turned away because they did not show "
                 "this job's key%s%s)",
                 (unsigned long long)s->turned_away, s->last_away[0] ? ", the last from " : "",
                 s->last_away);
    n = strlen(out);
    if (n < bytes && j->control_fd < 0 && address_is_loopback(s->listen_fd))
        snprintf(
            out + n, bytes - n,
            "; rank 0 listens at a loopback address, since MASTER_ADDR=%.64s leads there on its "
            "machine: ranks on other machines need another",
            j->who.addr);
}

/* --- requests --- */

void members_reply(void *ctx, uint32_t rank, weft_status status, const void *bytes, uint64_t n)
{
    job *j = ctx;
    peer *p = j->server->members[rank].p;
    if (!rank) {
        job_answer(j, j->box.seq, status, bytes, n);
    } else if (p && p->asked) {
        p->asked = false;
        wire_send(&p->w, WIRE_REPLY, (uint32_t)status, p->seq, bytes, (uint32_t)n);
    }
}

static void request(job *j, uint32_t rank, uint32_t type, const char *key, const void *value,
                    uint64_t bytes, uint64_t due)
{
    store *s = j->server->store;
    if (type == WIRE_PUT)
        store_put(s, rank, key, value, bytes);
    else if (type == WIRE_GET)
        store_get(s, rank, key, due);
    else
        store_exchange(s, rank, key, value, bytes, due);
}

void server_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                uint64_t wait_ms)
{
    request(j, 0, type, key, value, bytes, clock_ms() + wait_ms);
    job_wake(j); /* others may have got their answer by it */
}

void server_give_up(job *j)
{
    store_tick(j->server->store, UINT64_MAX);
}

/* --- goodbyes --- */

void server_broadcast(job *j, uint32_t rank, const char *text)
{
    uint32_t n = (uint32_t)strnlen(text, WIRE_TEXT - 1);
    for (uint32_t r = 1; r < j->who.ranks; r++)
        if (j->server->members[r].p)
            wire_send(&j->server->members[r].p->w, WIRE_FAILURE, rank, 0, text, n);
    j->drained = false;
    job_wake(j);
}

static void all_left(job *j)
{
    for (uint32_t r = 1; r < j->who.ranks; r++)
        wire_send(&j->server->members[r].p->w, WIRE_ALL_LEFT, 0, 0, NULL, 0);
    j->all_left = true;
    pthread_cond_broadcast(&j->moved);
    job_wake(j);
}

void server_bye(job *j, uint32_t rank, weft_status status, const char *text)
{
    server *s = j->server;
    if (s->members[rank].bye)
        return;
    s->members[rank].bye = true;
    s->members[rank].well = status == WEFT_OK;
    char full[BLAME_TEXT];
    if (status == WEFT_OK) {
        if (++s->left == j->who.ranks)
            all_left(j);
    } else if (status == WEFT_PEER) {
        snprintf(full, sizeof full, "gave up: %.900s", text);
        job_suspect(j, rank, BLAME_SECOND, full);
    } else {
        snprintf(full, sizeof full, "rank %u failed: %.900s", rank, text);
        job_declare(j, rank, full);
    }
}

/* --- events --- */

static void violation(job *j, peer *p, const wire_frame *f)
{
    char text[128];
    snprintf(text, sizeof text, "broke the protocol of the store (frame of type %u, %u bytes)",
             f->type, f->bytes);
    job_suspect(j, p->rank, BLAME_SURE, text);
    wire_close(&p->w);
    p->interest = 0;
}

/* False: the frame is against the protocol. */
static bool take_request(job *j, peer *p, const wire_frame *f)
{
    char key[WIRE_KEY_MAX + 1];
    const uint8_t *value;
    uint32_t bytes;
    if (p->asked || wire_unsent(&p->w) > BACKLOG_MAX || !wire_key(f, key, &value, &bytes))
        return false;
    p->asked = true;
    p->seq = f->seq;
    request(j, p->rank, f->type, key, value, bytes, clock_ms() + f->arg);
    return true;
}

static bool take_frame(job *j, peer *p, const wire_frame *f)
{
    member *m = &j->server->members[p->rank];
    char text[WIRE_TEXT];
    server_confirm(j, p->rank);
    switch (f->type) {
    case WIRE_BEAT:
        if (f->bytes != 16)
            return false;
        m->step = wire_get64(f->body);
        m->place = wire_get64(f->body + 8);
        return true;
    case WIRE_STOP:
    case WIRE_HELD: return stop_from_rank(j, p->rank, f);
    case WIRE_PUT:
    case WIRE_GET:
    case WIRE_EXCHANGE: return take_request(j, p, f);
    case WIRE_BYE:
        wire_text(f, text, sizeof text);
        server_bye(j, p->rank, (weft_status)f->arg, text);
        return true;
    default: return false;
    }
}

void member_event(job *j, peer *p)
{
    uint64_t before = tls_heard(p->w.tls);
    for (;;) {
        wire_frame f;
        weft_status status = wire_take(&p->w, &f);
        if (status == WEFT_BUSY)
            break;
        if (status == WEFT_DATA) {
            f = (wire_frame){.bytes = p->w.bytes};
            violation(j, p, &f);
            return;
        }
        if (status) {
            member_lost(j, p);
            return;
        }
        if (!take_frame(j, p, &f)) {
            violation(j, p, &f);
            return;
        }
    }
    if (tls_heard(p->w.tls) != before)
        j->server->members[p->rank].alive = j->clock.ms;
    peer_watch(j, p);
}

void member_lost(job *j, peer *p)
{
    member *m = &j->server->members[p->rank];
    wire_close(&p->w);
    p->interest = 0;
    if (!m->confirmed)
        m->joined = false; /* its attempt was over before the welcome came: it tries again */
    else if (!m->bye)
        job_suspect(j, p->rank, BLAME_GONE, "is gone: its connection ended without a word");
    else if (m->well && !j->all_left)
        job_suspect(j, p->rank, BLAME_GONE, "is gone: it did not wait for the others to finish");
}

/* --- time --- */

static void check_silence(job *j, uint32_t rank)
{
    member *m = &j->server->members[rank];
    uint64_t silent = j->clock.ms - m->alive;
    if (m->p->w.fd < 0 || silent < j->silence_ms)
        return;
    char text[96];
    snprintf(text, sizeof text, "is frozen: no sign of life for %.1f s", (double)silent / 1000);
    job_suspect(j, rank, BLAME_SURE, text);
}

void members_tick(job *j)
{
    server *s = j->server;
    uint64_t now = clock_ms();
    uint8_t body[16];
    wire_put64(body, atomic_load_explicit(&j->step, memory_order_relaxed));
    wire_put64(body + 8, atomic_load_explicit(&j->place, memory_order_relaxed));
    for (uint32_t r = 1; r < j->who.ranks; r++) {
        member *m = &s->members[r];
        if (!m->p)
            continue;
        check_silence(j, r);
        if (now - m->beat < j->beat_ms || wire_unsent(&m->p->w))
            continue;
        m->beat = now;
        wire_send(&m->p->w, WIRE_BEAT, 0, 0, body, sizeof body);
    }
}

void members_flush(job *j)
{
    server *s = j->server;
    bool drained = true, parted = true;
    for (uint32_t r = 1; r < j->who.ranks; r++) {
        peer *p = s->members[r].p;
        if (!p || p->w.fd < 0)
            continue;
        weft_status status = wire_flush(&p->w);
        if (status && status != WEFT_BUSY) {
            member_event(j, p); /* its last words may have come before the end */
            if (p->w.fd >= 0)
                member_lost(j, p);
        }
        peer_watch(j, p);
        drained = drained && !wire_unsent(&p->w);
        parted = parted && p->w.fd < 0;
    }
    if ((drained && !j->drained) || (parted && !j->parted))
        pthread_cond_broadcast(&j->moved);
    j->drained = drained;
    j->parted = parted;
}
