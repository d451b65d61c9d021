/* failure.c: failures as sentences: failed completions, asynchronous events, peers that have left.
 *
 * A queue pair that sends to a dead peer reports it after timeout * (retry + 1); one that only
 * receives never does. The end of the side channel is reported at once. The byte before it, if any,
 * tells a peer that left or aborted from one that died. */
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

typedef struct cause {
    weft_status code;
    const char *name, *likely;
} cause;

static const cause causes[] = {
    [IBV_WC_LOC_LEN_ERR] = {WEFT_INTERNAL, "local length error",
                            "a message is longer than what was posted for it"},
    [IBV_WC_LOC_QP_OP_ERR] = {WEFT_INTERNAL, "local queue pair operation error",
                              "the device found a request that it cannot carry out"},
    [IBV_WC_LOC_EEC_OP_ERR] = {WEFT_INTERNAL, "local end-to-end context error",
                               "the device found a request that it cannot carry out"},
    [IBV_WC_LOC_PROT_ERR] = {WEFT_USAGE, "local protection error",
                             "memory of this rank that is not registered, or no longer"},
    [IBV_WC_WR_FLUSH_ERR] = {WEFT_IO, "work request flushed",
                             "the queue pair was stopped, by an earlier error or with its device"},
    [IBV_WC_MW_BIND_ERR] = {WEFT_INTERNAL, "memory window bind error", "no such request was made"},
    [IBV_WC_BAD_RESP_ERR] = {WEFT_PEER, "bad response",
                             "the answer is not from the peer's queue pair; do two devices of the "
                             "network have the same address?"},
    [IBV_WC_LOC_ACCESS_ERR] = {WEFT_PEER, "local access error",
                               "the peer wrote outside the memory that this rank has registered"},
    [IBV_WC_REM_INV_REQ_ERR] =
        {WEFT_PEER, "remote invalid request",
         "the peer's device does not accept the request; do all ranks run the "
         "same version?"},
    [IBV_WC_REM_ACCESS_ERR] = {WEFT_PEER, "remote access error",
                               "the peer's memory is not registered"},
    [IBV_WC_REM_OP_ERR] = {WEFT_PEER, "remote operation error",
                           "the peer's device failed to execute the request"},
    [IBV_WC_RETRY_EXC_ERR] = {WEFT_PEER, "retries exceeded",
                              "the peer is gone, or a link between the two is down; a network that "
                              "loses packets needs a larger timeout"},
    [IBV_WC_RNR_RETRY_EXC_ERR] = {WEFT_PEER, "receiver not ready",
                                  "the peer has no receive request posted; is it stopped?"},
    [IBV_WC_LOC_RDD_VIOL_ERR] = {WEFT_INTERNAL, "local RDD violation", "no such request was made"},
    [IBV_WC_REM_INV_RD_REQ_ERR] = {WEFT_INTERNAL, "remote invalid RD request",
                                   "no such request was made"},
    [IBV_WC_REM_ABORT_ERR] = {WEFT_PEER, "remote abort", "the peer's device aborted the request"},
    [IBV_WC_INV_EECN_ERR] = {WEFT_INTERNAL, "invalid end-to-end context",
                             "no such request was made"},
    [IBV_WC_INV_EEC_STATE_ERR] = {WEFT_INTERNAL, "invalid end-to-end state",
                                  "no such request was made"},
    [IBV_WC_FATAL_ERR] = {WEFT_IO, "fatal error",
                          "the device has failed; the kernel's log may have the cause"},
    [IBV_WC_RESP_TIMEOUT_ERR] = {WEFT_PEER, "response timeout",
                                 "the peer is gone, or a link between the two is down"},
    [IBV_WC_GENERAL_ERR] = {WEFT_IO, "general error", "the device gives no cause"},
};

static const char *const operations[] = {[OP_SLOT] = "sending a short message to",
                                         [OP_DATA] = "writing a message to",
                                         [OP_RECORD] = "sending a credit to",
                                         [OP_DRAIN] = "waiting for the last message to",
                                         [OP_RECEIVE] = "receiving from"};

static weft_status left(weft_conn *c)
{
    static const char *const how[] = {[GONE_LEFT] = "left", [GONE_DIED] = "died"};
    bool in = c->in.done < c->in.posted;
    if (c->gone == GONE_ABORTED)
        return sockets_break(&c->peer, WEFT_PEER, "rank %u has aborted the job", c->peer.rank);
    return sockets_break(&c->peer, WEFT_PEER, "rank %u %s while message %llu of channel %u was %s",
                         c->peer.rank, how[c->gone],
                         (unsigned long long)(in ? c->in.done : c->out.done), c->peer.channel,
                         in ? "awaited" : "sent");
}

/* A peer that has left or died explains every error, so that is looked at first. */
weft_status verbs_completion_failed(weft_conn *c, const struct ibv_wc *wc)
{
    weft_link *l = c->link;
    uint32_t op = wc->wr_id >> 56 & 0xff, number = wc->wr_id >> 48 & 0xff;
    const rail *r = &l->rail[c->pair[number % PAIRS].rail];
    const char *vendor = "", *down = "";
    char code[32], tries[64] = "";
    cause why = {WEFT_IO, "an error without a name", "the device gives no cause"};
    if (c->peer.broken == WEFT_OK)
        verbs_events(l, 0);
    if (c->gone != GONE_NOT)
        return left(c);
    if ((unsigned)wc->status < sizeof causes / sizeof causes[0] && causes[wc->status].name)
        why = causes[wc->status];
    if (wc->vendor_err != 0) {
        snprintf(code, sizeof code, ", vendor code 0x%x", wc->vendor_err);
        vendor = code;
    }
    if (r->down_since != 0)
        down = "; this rank's own port is down";
    if (wc->status == IBV_WC_RETRY_EXC_ERR)
        snprintf(tries, sizeof tries, " after %d tries in %.1f s or more", l->options.retry + 1,
                 verbs_retry_seconds(&l->options));
    return sockets_break(&c->peer, why.code,
                         "%s rank %u on channel %u over %s port %u failed%s: %s%s; %s%s",
                         operations[op <= OP_RECEIVE ? op : OP_DATA], c->peer.rank, c->peer.channel,
                         r->name, r->port, tries, why.name, vendor, why.likely, down);
}

static void fatal(weft_link *l, const rail *r, const char *what)
{
    for (weft_conn *c = verbs_first(l); c; c = verbs_next(c))
        (void)!sockets_break(&c->peer, WEFT_IO, "%s %s; channel %u with rank %u goes over it",
                             r->name, what, c->peer.channel, c->peer.rank);
}

static void stopped(weft_conn *c, const rail *r, const char *why)
{
    if (c)
        (void)!sockets_break(&c->peer, WEFT_IO, "%s has stopped channel %u with rank %u: %s",
                             r->name, c->peer.channel, c->peer.rank, why);
}

static void one_event(weft_link *l, rail *r, const struct ibv_async_event *e)
{
    char text[128];
    bool mine = e->element.port_num == r->port;
    switch ((int)e->event_type) {
    case IBV_EVENT_PORT_ERR:
        if (!mine)
            break;
        r->down_since = sockets_now_us();
        snprintf(text, sizeof text, "port %u of RDMA device %s went down", r->port, r->name);
        l->net.host->log(l->net.host->ctx, WEFT_LOG_WARN, text);
        break;
    case IBV_EVENT_PORT_ACTIVE: r->down_since = mine ? 0 : r->down_since; break;
    case IBV_EVENT_DEVICE_FATAL:
        r->dead = true;
        fatal(l, r, "has failed or was removed");
        break;
    case IBV_EVENT_CQ_ERR:
        stopped(e->element.cq->cq_context, r, "its completion queue overflowed");
        break;
    case IBV_EVENT_QP_FATAL: stopped(e->element.qp->qp_context, r, "its queue pair failed"); break;
    case IBV_EVENT_QP_REQ_ERR:
        stopped(e->element.qp->qp_context, r, "its queue pair received an invalid request");
        break;
    case IBV_EVENT_QP_ACCESS_ERR:
        stopped(e->element.qp->qp_context, r,
                "the peer wrote outside the memory that this rank has registered");
        break;
    default: break;
    }
}

void verbs_async_events(weft_link *l, rail *r)
{
    struct ibv_async_event e;
    while (l->api->get_async_event(r->context, &e) == 0) {
        one_event(l, r, &e);
        l->api->ack_async_event(&e);
    }
    if (r->dead && r->async.fd >= 0) { /* the event would repeat without end */
        (void)epoll_ctl(l->net.epoll, EPOLL_CTL_DEL, r->async.fd, NULL);
        r->async.fd = -1;
    }
}

void verbs_read_side_channel(weft_conn *c)
{
    char last = 0;
    ssize_t n = 0;
    c->peer.io.readable = false;
    while (c->gone == GONE_NOT) {
        n = recv(c->peer.io.fd, &last, 1, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        c->gone = n <= 0 ? GONE_DIED : last == 'A' ? GONE_ABORTED : GONE_LEFT;
    }
}

/* Called when progress() finds nothing: break a connection that cannot move any more. */
void verbs_check_stall(weft_conn *c)
{
    weft_link *l = c->link;
    bool sends = c->blocked_since != 0, any = sends || c->gone != GONE_NOT;
    for (uint32_t i = 0; i < l->nrails; i++)
        any |= l->rail[i].down_since != 0;
    if (!any || !verbs_has_posted(c))
        return;
    uint64_t now = sockets_now_us();
    c->gone_for += c->gone != GONE_NOT ? sockets_gap_us(&c->looked) : 0;
    if (c->gone == GONE_ABORTED || c->gone_for > GRACE_US) {
        (void)!left(c);
        return;
    }
    for (uint32_t i = 0; i < c->pairs; i++) {
        const rail *r = &l->rail[c->pair[i].rail];
        double down = r->down_since != 0 ? (double)(now - r->down_since) * 1e-6 : 0;
        if (down > verbs_retry_seconds(&l->options))
            (void)!sockets_break(&c->peer, WEFT_IO,
                                 "port %u of RDMA device %s has been down for %.1f s; channel %u "
                                 "with rank %u goes over it",
                                 r->port, r->name, down, c->peer.channel, c->peer.rank);
    }
    if (sends && now - c->blocked_since > BLOCKED_US && c->out.issued < c->out.posted)
        (void)verbs_send_want(c, &c->out.m[c->out.issued % QUEUE]);
}
