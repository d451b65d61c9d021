/* job/members.c: the admitted ranks: their requests, failure detection, and how they leave. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "job/mailbox.h"
#include "job/members.h"
#include "job/roles.h"
#include "job/stop.h"
#include "job/wire/address.h"

#define BACKLOG_MAX 4096 /* bytes queued to a rank beyond which its requests are not accepted */

/* Does rank 0 listen at loopback addresses alone? */
static bool listens_to_itself(const job_door *d)
{
    bool alone = d->sockets > 0;
    for (uint32_t i = 0; i < d->sockets; i++)
        alone &= job_address_is_loopback(d->listens[i]);
    return alone;
}

void job_server_missing(job *j, char *out, uint32_t bytes)
{
    const job_server *s = j->server;
    uint32_t listed = 0, missing = j->who.ranks - s->confirmed;
    size_t n = 0;
    out[0] = 0;
    for (uint32_t r = 0; r < j->who.ranks && listed < 8 && n < bytes; r++)
        if (!s->members[r].confirmed)
            n += (size_t)snprintf(out + n, bytes - n, "%srank %u", listed++ ? ", " : "", r);
    if (missing > listed && n < bytes)
        n += (size_t)snprintf(out + n, bytes - n, " and %u more", missing - listed);
    if (s->door.turned_away && n < bytes)
        snprintf(out + n, bytes - n,
                 " (%llu connections were turned away because they did not show "
                 "this job's key%s%s)",
                 (unsigned long long)s->door.turned_away,
                 s->door.last_away[0] ? ", the last from " : "", s->door.last_away);
    n = strlen(out);
    if (n < bytes && j->control_fd < 0 && listens_to_itself(&s->door))
        snprintf(
            out + n, bytes - n,
            "; rank 0 listens at a loopback address, since MASTER_ADDR=%.64s leads there on its "
            "machine: ranks on other machines need another",
            j->who.addr);
}

/* --- sending --- */

void job_members_send(job *j, job_peer *p, uint32_t type, uint32_t arg, uint32_t seq,
                      const void *body, uint32_t bytes)
{
    job_server *s = j->server;
    job_wire_send(&p->w, type, arg, seq, body, bytes);
    if (!s->members[p->rank].posted)
        s->posted[s->posted_n++] = p->rank;
    s->members[p->rank].posted = true;
}

static void send_all(job *j, uint32_t type, uint32_t arg, uint32_t seq, const void *body,
                     uint32_t bytes)
{
    for (uint32_t r = 1; r < j->who.ranks; r++)
        if (j->server->members[r].p)
            job_members_send(j, j->server->members[r].p, type, arg, seq, body, bytes);
    j->drained = false;
    job_wake(j);
}

static void close_member(job *j, job_peer *p)
{
    j->server->open -= p->w.fd >= 0;
    job_peer_drop(p);
}

/* --- events --- */

static void send_failure(job *j, uint32_t rank, const char *text, const char *own)
{
    send_all(j, WIRE_FAILURE, rank, own ? (uint32_t)(own - text) : 0, text,
             (uint32_t)strnlen(text, WIRE_TEXT - 1));
}

void job_server_declare(job *j, uint32_t rank, const char *text, const char *own)
{
    if (job_record_cause(j, rank, text, own))
        send_failure(j, rank, text, own);
}

static void send_hold(job *j, uint64_t begun)
{
    job_server *s = j->server;
    s->members[0].held = true;
    s->members[0].begun = begun;
    for (uint32_t r = 1; r < j->who.ranks; r++)
        if (s->members[r].p && !s->members[r].bye)
            job_members_send(j, s->members[r].p, WIRE_HOLD, (uint32_t)j->halt.number, 0, NULL, 0);
    job_wake(j);
}

void job_members_act(job *j, const job_event *e)
{
    if (e->kind == JOB_EVENT_FAILURE)
        job_server_declare(j, e->rank, e->text, NULL);
    else if (e->kind == JOB_EVENT_HOLD)
        send_hold(j, e->step);
    else
        job_stop_act(j, e);
}

job_sign job_members_sign(const job *j, uint32_t rank)
{
    if (rank >= j->who.ranks)
        return (job_sign){.rank = rank, .seen = JOB_SEEN_UNKNOWN};
    const job_member *m = &j->server->members[rank];
    return (job_sign){.rank = rank,
                      .seen = m->joined ? JOB_SEEN_AT : JOB_SEEN_NEVER,
                      .left = m->bye,
                      .host = j->server->hosts && *m->host ? m->host : NULL,
                      .step = m->mark.step,
                      .place = m->mark.place};
}

/* --- requests --- */

void job_members_reply(void *ctx, uint32_t rank, weft_status st, const void *bytes, uint64_t n)
{
    job *j = ctx;
    job_peer *p = j->server->members[rank].p;
    if (!rank) {
        job_answer(j, j->box.seq, st, bytes, n);
    } else if (p && p->asked) {
        p->asked = false;
        job_members_send(j, p, WIRE_REPLY, (uint32_t)st, p->seq, bytes, (uint32_t)n);
    }
}

static void request(job *j, uint32_t rank, uint32_t type, const char *key, const void *value,
                    uint64_t bytes, uint64_t due)
{
    job_store *s = j->server->store;
    switch (type) {
    case WIRE_PUT: job_store_put(s, rank, key, value, bytes); break;
    case WIRE_GET: job_store_get(s, rank, key, due); break;
    case WIRE_ADD: job_store_add(s, rank, key, value, bytes); break;
    case WIRE_FIND: job_store_find(s, rank, key); break;
    case WIRE_GATHER: job_gathers_join(j->server->gathers, rank, key, value, bytes, due); break;
    default: job_gathers_exchange(j->server->gathers, rank, key, value, bytes, due);
    }
}

void job_server_ask(job *j, uint32_t type, const char *key, const void *value, uint64_t bytes,
                    uint64_t wait_ms)
{
    request(j, 0, type, key, value, bytes, awake_ms() + wait_ms);
    job_wake(j); /* the request may have completed those of other ranks */
}

void job_server_give_up(job *j)
{
    job_store_tick(j->server->store, UINT64_MAX);
    job_gathers_tick(j->server->gathers, UINT64_MAX);
}

/* --- leaving --- */

static void all_left(job *j)
{
    send_all(j, WIRE_ALL_LEFT, 0, 0, NULL, 0);
    j->all_left = true;
    job_notify(j);
}

void job_server_bye(job *j, uint32_t rank, weft_status st, const char *text)
{
    job_server *s = j->server;
    if (s->members[rank].bye)
        return;
    s->members[rank].bye = true;
    s->members[rank].well = st == WEFT_OK;
    char full[JOB_CAUSE_TEXT];
    if (st == WEFT_OK) {
        if (++s->left == j->who.ranks)
            all_left(j);
    } else if (st == WEFT_PEER) {
        snprintf(full, sizeof full, "gave up: %.900s", text);
        job_add_sign(j, rank, JOB_CAUSE_SECOND, full);
    } else {
        const int n = snprintf(full, sizeof full, "rank %u failed: ", rank);
        snprintf(full + n, sizeof full - (size_t)n, "%.900s", text);
        job_server_declare(j, rank, full, full + n);
    }
}

/* --- frames --- */

static void violation(job *j, job_peer *p, const job_wire_frame *f)
{
    char text[128];
    snprintf(text, sizeof text, "broke the protocol of the store (frame of type %u, %u bytes)",
             f->type, f->bytes);
    job_add_sign(j, p->rank, JOB_CAUSE_SURE, text);
    close_member(j, p);
}

/* False: the frame violates the protocol. */
static bool take_request(job *j, job_peer *p, const job_wire_frame *f)
{
    char key[WIRE_KEY_MAX + 1];
    const uint8_t *value;
    uint32_t bytes;
    if (p->asked || job_wire_unsent(&p->w) > BACKLOG_MAX || !job_wire_key(f, key, &value, &bytes))
        return false;
    p->asked = true;
    p->seq = f->seq;
    request(j, p->rank, f->type, key, value, bytes, awake_ms() + f->arg);
    return true;
}

static bool take_stop(job *j, const job_wire_frame *f)
{
    const job_view v = job_view_now(j);
    const job_event e = job_agreement_begin(&j->halt, &v, (int)f->arg);
    job_members_act(j, &e);
    return f->bytes == 0;
}

static bool take_begun(const job *j, job_member *m, const job_wire_frame *f)
{
    if (f->bytes != 8 || !j->halt.held)
        return false;
    m->held = true;
    m->begun = job_wire_get64(f->body);
    return true;
}

static void send_beat(job *j, job_peer *p, uint32_t arg)
{
    uint8_t body[BEAT_DOWN_BYTES];
    const job_beat_root r = {j->server->number,
                             {atomic_load_explicit(&j->step, memory_order_relaxed),
                              atomic_load_explicit(&j->place, memory_order_relaxed)}};
    job_beat_pack_down(&r, body);
    job_members_send(j, p, WIRE_BEAT, arg, 0, body, sizeof body);
}

/* A rank asks for a beat when its parent passes none on. Others get theirs anyway. */
static bool take_beat(job *j, job_peer *p, const job_wire_frame *f)
{
    job_server *s = j->server;
    job_member *m = &s->members[p->rank];
    job_beat_mark mark;
    uint32_t n;
    if (!job_beat_unpack_up(f, &m->mark, &n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rank = job_beat_entry(f, i, &mark);
        if (!job_tree_is_below(&s->tree, p->rank, rank))
            return false;
        s->members[rank].mark = mark;
    }
    if ((f->arg & BEAT_ASKS) && m->guard.relies && !job_wire_unsent(&p->w))
        send_beat(j, p, 0);
    return true;
}

/* A parent takes over one of its children, or returns it. */
static bool take_watch(job *j, const job_peer *p, const job_wire_frame *f)
{
    const job_server *s = j->server;
    const bool silent = f->type == WIRE_SILENT;
    if (f->arg >= j->who.ranks || !f->arg || job_tree_parent(&s->tree, f->arg) != p->rank ||
        f->bytes != (silent ? 8u : 0u))
        return false;
    job_member *m = &s->members[f->arg];
    if (!silent)
        job_tree_rely(&m->guard);
    else
        job_tree_return(&m->guard, j->clock.sum, job_wire_get64(f->body), j->silence_ms);
    if (silent && m->p && !m->bye)
        send_beat(j, m->p, BEAT_ASKS);
    return true;
}

static bool take_frame(job *j, job_peer *p, const job_wire_frame *f)
{
    job_member *m = &j->server->members[p->rank];
    char text[WIRE_TEXT];
    if (!m->confirmed)
        j->server->confirmed++;
    m->confirmed = true;
    switch (f->type) {
    case WIRE_BEAT: return take_beat(j, p, f);
    case WIRE_WATCHES:
    case WIRE_SILENT: return take_watch(j, p, f);
    case WIRE_STOP: return take_stop(j, f);
    case WIRE_HELD: return take_begun(j, m, f);
    case WIRE_PUT:
    case WIRE_GET:
    case WIRE_ADD:
    case WIRE_FIND:
    case WIRE_GATHER:
    case WIRE_EXCHANGE: return take_request(j, p, f);
    case WIRE_BYE:
        job_wire_text(f, text, sizeof text);
        job_server_bye(j, p->rank, (weft_status)f->arg, text);
        return true;
    default: return false;
    }
}

void job_member_event(job *j, job_peer *p)
{
    uint64_t before = job_tls_received(p->w.tls);
    for (;;) {
        job_wire_frame f;
        weft_status st = job_wire_take(&p->w, &f);
        if (st == WEFT_BUSY)
            break;
        if (st == WEFT_DATA) {
            f = (job_wire_frame){.bytes = p->w.bytes};
            violation(j, p, &f);
            return;
        }
        if (st != WEFT_OK) {
            job_member_lost(j, p);
            return;
        }
        if (!take_frame(j, p, &f)) {
            violation(j, p, &f);
            return;
        }
    }
    if (job_tls_received(p->w.tls) != before)
        j->server->members[p->rank].guard.last_seen = j->clock.sum;
    job_peer_watch(j->server->epoll_fd, p);
}

void job_member_lost(job *j, job_peer *p)
{
    job_member *m = &j->server->members[p->rank];
    close_member(j, p);
    if (!m->confirmed)
        m->joined = false; /* this attempt ended before the welcome arrived: the rank tries again */
    else if (!m->bye)
        job_add_sign(j, p->rank, JOB_CAUSE_GONE,
                     "is gone: its connection was closed without a message");
    else if (m->well && !j->all_left)
        job_add_sign(j, p->rank, JOB_CAUSE_GONE,
                     "is gone: it did not wait for the others to finish");
}

/* --- time --- */

static void check_silence(job *j, uint32_t rank)
{
    const job_member *m = &j->server->members[rank];
    if (m->p->w.fd >= 0 && job_tree_is_frozen(&m->guard, j->clock.sum, j->silence_ms))
        job_member_event(j, m->p); /* with many ranks its bytes may wait in the socket still */
    if (m->p->w.fd < 0 || !job_tree_is_frozen(&m->guard, j->clock.sum, j->silence_ms))
        return;
    char text[96];
    snprintf(text, sizeof text, JOB_FROZEN, (double)(j->clock.sum - m->guard.last_seen) / 1000);
    job_add_sign(j, rank, JOB_CAUSE_SURE, text);
}

/* Without our launcher: whether ranks that are asked to stop may still come. When they have had
 * STOP_MEET_MS the job fails. */
static bool may_still_meet(job *j)
{
    char who[WIRE_TEXT - 256], why[WIRE_TEXT - 200];
    job_server *s = j->server;
    if (j->control_fd >= 0 || s->confirmed == j->who.ranks)
        return false;
    s->halted = s->halted ? s->halted : awake_ms();
    if (awake_ms() - s->halted < STOP_MEET_MS)
        return true;
    job_server_missing(j, who, sizeof who);
    snprintf(why, sizeof why, "these ranks had not joined: %s", who);
    job_stop_unmet(j, j->halt.number, why);
    send_failure(j, 0, j->failure, NULL);
    return true;
}

/* Have all ranks answered with the step that they have begun? Then the last step is known. */
static void conclude_stop(job *j)
{
    uint64_t last = 0;
    if (may_still_meet(j))
        return;
    for (uint32_t r = 0; r < j->who.ranks; r++) {
        const job_member *m = &j->server->members[r];
        if (!job_agreement_count(m->joined, m->bye, m->held, m->begun, &last))
            return;
    }
    uint8_t body[8];
    job_wire_put64(body, last);
    send_all(j, WIRE_LAST, (uint32_t)j->halt.number, 0, body, sizeof body);
    const job_event e = job_agreement_finish(&j->halt, j->halt.number, last);
    job_members_act(j, &e);
}

void job_members_decide(job *j)
{
    job_request_stop(j, job_stop_asked());
    if (j->halt.held && !j->halt.agreed && !atomic_load(&j->failed))
        conclude_stop(j);
    job_stop_end_overdue(j);
}

void job_members_tick(job *j)
{
    job_server *s = j->server;
    const uint64_t now = awake_ms();
    const bool due = now - s->beat >= j->beat_ms;
    const bool later = now - s->later >= job_tree_interval(true, j->beat_ms, j->silence_ms);
    s->number += due;
    s->beat = due ? now : s->beat;
    s->later = later ? now : s->later;
    for (uint32_t r = 1; r < j->who.ranks; r++) {
        const job_member *m = &s->members[r];
        if (!m->p || m->guard.relies)
            continue;
        check_silence(j, r);
        const bool near = m->guard.relied || !job_tree_parent(&s->tree, r);
        if ((near ? due : later) && !job_wire_unsent(&m->p->w))
            send_beat(j, m->p, BEAT_ASKS);
    }
}

static void flush(job *j, job_peer *p)
{
    const weft_status st = job_wire_flush(&p->w);
    if (st != WEFT_OK && st != WEFT_BUSY) {
        job_member_event(j, p); /* its last words may have come before the end */
        if (p->w.fd >= 0)
            job_member_lost(j, p);
        job_wake(j); /* they may have led to frames for others */
    }
    job_peer_watch(j->server->epoll_fd, p);
}

void job_members_flush(job *j)
{
    job_server *s = j->server;
    uint32_t *now = s->posted;
    const uint32_t n = s->posted_n;
    s->posted = s->other;
    s->other = now;
    s->posted_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        job_member *m = &s->members[now[i]];
        flush(j, m->p);
        m->posted = m->p->w.fd >= 0 && job_wire_unsent(&m->p->w);
        if (m->posted)
            s->posted[s->posted_n++] = now[i];
    }
    const bool drained = !s->posted_n, parted = !s->open;
    if ((drained && !j->drained) || (parted && !j->parted))
        job_notify(j);
    j->drained = drained;
    j->parted = parted;
}
