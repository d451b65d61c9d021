/* wait.c: events and sleeping.
 *
 * Work is found by polling completion queues, which costs no system call. Before it sleeps, a link
 * requests an event from each queue of a connection with posted work and polls once more, since
 * earlier completions make no event. It sleeps in one epoll set with the completion channels, the
 * side channels, the devices' asynchronous events and the eventfd of wake(). */
#include "verbs.h"

/* After an event a queue makes the next one only if it is requested again. */
static void take_events(weft_link *l, rail *r)
{
    struct ibv_cq *cq;
    void *mine;
    while (l->api->get_cq_event(r->channel, &cq, &mine) == 0) {
        weft_conn *c = mine;
        l->api->ack_cq_events(cq, 1);
        for (uint32_t i = 0; i < l->nrails; i++)
            if (c->cq[i] == cq)
                c->armed[i] = false;
    }
}

int verbs_events(weft_link *l, int64_t timeout_us)
{
    int n = sockets_events(&l->net, timeout_us);
    for (uint32_t i = 0; i < l->nrails; i++) {
        rail *r = &l->rail[i];
        if (r->completions.readable)
            take_events(l, r);
        if (r->async.readable)
            verbs_async_events(l, r);
        r->completions.readable = r->async.readable = false;
    }
    for (weft_conn *c = verbs_first(l); c; c = verbs_next(c))
        if (c->peer.up && c->peer.io.readable)
            verbs_read_side_channel(c);
    return n;
}

/* Would a call on some connection find work now? */
static bool has_work(weft_link *l)
{
    bool found = sockets_has_work(&l->net);
    for (weft_conn *c = verbs_first(l); c; c = verbs_next(c)) {
        if (c->peer.up && c->peer.broken == WEFT_OK)
            c->unseen |= verbs_poll(c);
        found |= (c->unseen || c->peer.broken != WEFT_OK) && verbs_has_posted(c);
    }
    return found;
}

static void arm(weft_link *l)
{
    for (weft_conn *c = verbs_first(l); c; c = verbs_next(c))
        for (uint32_t i = 0; c->peer.up && verbs_has_posted(c) && i < l->nrails; i++)
            if (c->cq[i] && !c->armed[i])
                c->armed[i] = ibv_req_notify_cq(c->cq[i], 0) == 0;
}

/* Deadlines shorten the sleep: attempts to dial, a port that is down, a peer that has left, a
 * sender that waits for a credit. */
static uint32_t shorten(const weft_link *l, uint32_t timeout_us)
{
    uint32_t pause = sockets_pause_us(&l->net), max = timeout_us < pause ? timeout_us : pause;
    bool soon = false;
    for (uint32_t i = 0; i < l->nrails; i++)
        soon |= l->rail[i].down_since != 0;
    if (soon && max > 100000)
        max = 100000;
    for (const weft_conn *c = verbs_first(l); c; c = verbs_next(c)) {
        if (c->gone != GONE_NOT && max > SOCKETS_GAP_US)
            max = SOCKETS_GAP_US;
        if (c->blocked_since != 0 && max > BLOCKED_US)
            max = BLOCKED_US;
    }
    return max;
}

weft_status verbs_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    bool found = has_work(l);
    uint64_t until = !found && spin_us > 0 ? sockets_now_us() + spin_us : 0;
    while (!found && until > 0 && sockets_now_us() < until) {
        for (int i = 0; i < 32 && !found; i++) {
            weft_pause();
            found = has_work(l);
        }
    }
    if (!found) {
        arm(l);
        found = has_work(l);
    }
    verbs_events(l, found ? 0 : shorten(l, timeout_us));
    return sockets_link_usable(&l->net);
}
