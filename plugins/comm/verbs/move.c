/* move.c: messages: post, progress.
 *
 * Sends are issued in order, each through slots (slots.c) or directly (direct.c), and may complete
 * in any order; progress() counts up to the first that has not. A receive of more than `eager`
 * bytes sends a credit when it is posted, with the address to write to. */
#include "verbs.h"

#include <string.h>

enum { BATCH = 16, ROUNDS = 8, LOOK_EVERY = 64 };

static bool covers(const weft_region *r, const void *at, uint64_t bytes)
{
    uint64_t from = (uint64_t)((const uint8_t *)at - r->base);
    return from <= r->bytes && bytes <= r->bytes - from;
}

static weft_status post(weft_conn *c, queue *q, const message *m)
{
    weft_status st = sockets_usable(&c->peer);
    if (st != WEFT_OK)
        return st;
    if (q->posted - q->done == QUEUE)
        return WEFT_BUSY;
    if (m->region && m->bytes > 0 && !covers(m->region, m->at, m->bytes))
        return sockets_fail(
            c->link->net.host, WEFT_USAGE,
            "%llu bytes of channel %u with rank %u are not inside the region that was "
            "given with them",
            (unsigned long long)m->bytes, c->peer.channel, c->peer.rank);
    message *to = &q->m[q->posted++ % QUEUE];
    *to = *m;
    to->number = q->posted;
    c->unseen = true;
    return WEFT_OK;
}

/* Post the requests of a message; true: all of them are posted. */
static bool issue(weft_conn *c, message *m)
{
    if (m->bytes <= c->eager)
        return verbs_put_slots(c, m);
    const credit *to = &c->credit[m->number % QUEUE];
    if (to->number != m->number || to->bytes != m->bytes) {
        if (to->number == m->number) /* the receiver reports the lengths that differ */
            (void)verbs_send_want(c, m);
        else if (c->blocked_since == 0)
            c->blocked_since = sockets_now_us();
        return false;
    }
    c->blocked_since = 0;
    return to->direct && m->region ? verbs_put_stripes(c, m, to) : verbs_put_slots(c, m);
}

static bool is_done(const weft_conn *c, const message *m)
{
    for (uint32_t i = 0; i < c->pairs; i++)
        if (c->pair[i].done < m->last[i])
            return false;
    return true;
}

static void push(weft_conn *c)
{
    queue *q = &c->out;
    while (q->issued < q->posted && c->peer.broken == WEFT_OK) {
        message *m = &q->m[q->issued % QUEUE];
        if (!issue(c, m))
            break;
        q->issued++;
    }
    while (q->done < q->issued && is_done(c, &q->m[q->done % QUEUE]))
        q->done++;
}

static void send_credits(weft_conn *c)
{
    queue *q = &c->in;
    while (q->issued < q->posted && c->peer.broken == WEFT_OK) {
        message *m = &q->m[q->issued % QUEUE];
        if (m->bytes > c->eager && !verbs_send_credit(c, m))
            break;
        q->issued++;
    }
}

static void pull(weft_conn *c)
{
    queue *q = &c->in;
    while (q->done < q->posted && c->peer.broken == WEFT_OK) {
        message *m = &q->m[q->done % QUEUE];
        bool written = m->stripes != 0 && m->arrived == m->stripes;
        bool whole = written ? verbs_flushed(c, m) : m->stripes == 0 && verbs_take_slots(c, m);
        if (!whole)
            break;
        q->done++;
    }
    if (c->slots > 0 && c->slots_taken - c->slots_reported >= c->slots / 4)
        (void)verbs_send_free(c);
}

weft_status verbs_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region)
{
    message m = {.at = (void *)(uintptr_t)from, .bytes = bytes, .region = region};
    weft_status st = post(c, &c->out, &m);
    if (st == WEFT_OK && c->peer.up)
        push(c); /* without waiting for progress() */
    return st;
}

weft_status verbs_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region)
{
    message m = {.at = to, .bytes = bytes, .region = region};
    weft_status st = post(c, &c->in, &m);
    if (st == WEFT_OK && c->peer.up) {
        send_credits(c);
        if (c->want_number == c->in.posted)
            verbs_compare_want(c);
    }
    return st;
}

static weft_status take(weft_conn *c, const struct ibv_wc *wc)
{
    uint32_t number = wc->wr_id >> 48 & 0xff;
    uint64_t request = wc->wr_id & 0xffffffffffff;
    if (wc->status != IBV_WC_SUCCESS)
        return verbs_completion_failed(c, wc);
    if (wc->wr_id >> 56 != OP_RECEIVE) {
        c->pair[number].done = request;
        return WEFT_OK;
    }
    weft_status st;
    uint32_t imm = ntohl(wc->imm_data);
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        st = verbs_record(c, c->records_in + request * RECORD, number == 0 ? wc->byte_len : 0);
    else if (imm >> 30 == MESSAGE_DATA)
        st = verbs_stripe_arrived(c, imm);
    else
        st = verbs_slot_arrived(c, number == 0 ? imm : UINT32_MAX);
    return st == WEFT_OK ? verbs_post_receive(c, number, request) : st;
}

bool verbs_poll(weft_conn *c)
{
    struct ibv_wc wc[BATCH];
    bool any = false;
    for (uint32_t i = 0; i < c->link->nrails; i++) {
        int n = c->cq[i] ? BATCH : 0;
        for (int round = 0; n == BATCH && round < ROUNDS && c->peer.broken == WEFT_OK; round++) {
            n = ibv_poll_cq(c->cq[i], BATCH, wc);
            if (n < 0)
                (void)!sockets_break(&c->peer, WEFT_IO, "the completion queue of %s cannot be read",
                                     c->link->rail[i].name);
            for (int k = 0; k < n && c->peer.broken == WEFT_OK; k++)
                (void)!take(c, &wc[k]);
            any |= n > 0;
        }
    }
    return any;
}

bool verbs_has_posted(const weft_conn *c)
{
    return c->out.done < c->out.posted || c->in.done < c->in.posted;
}

weft_status verbs_progress(weft_conn *c, uint64_t *sent, uint64_t *received)
{
    weft_status st = sockets_usable(&c->peer);
    if (st != WEFT_OK)
        return st;
    if (c->peer.up) {
        bool found = verbs_poll(c) || c->unseen;
        c->unseen = false;
        push(c);
        send_credits(c);
        pull(c);
        if (found)
            c->idle = 0;
        else if (++c->idle % LOOK_EVERY == 0)
            verbs_events(c->link, 0);
        if (!found)
            verbs_check_stall(c);
        st = sockets_usable(&c->peer);
        if (st != WEFT_OK)
            return st;
    }
    *sent = c->out.done;
    *received = c->in.done;
    return WEFT_OK;
}
