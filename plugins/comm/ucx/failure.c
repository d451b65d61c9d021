/* failure.c: peers that have left, and what UCX reports, as sentences.
 *
 * The end of the side channel is reported at once. The byte before it, if any, tells a peer that
 * left or aborted from one that died. */
#include "ucx.h"

#include <errno.h>

static weft_status left(weft_conn *c)
{
    static const char *const how[] = {[GONE_LEFT] = "left", [GONE_DIED] = "died"};
    const bool in = c->in.done < c->in.posted;
    if (c->gone == GONE_ABORTED)
        return sockets_break(&c->peer, WEFT_PEER, "rank %u has aborted the job", c->peer.rank);
    if (!ucx_has_posted(c))
        return sockets_break(&c->peer, WEFT_PEER, "rank %u %s; channel %u led to it", c->peer.rank,
                             how[c->gone], c->peer.channel);
    return sockets_break(&c->peer, WEFT_PEER, "rank %u %s while message %llu of channel %u was %s",
                         c->peer.rank, how[c->gone],
                         (unsigned long long)(in ? c->in.done : c->out.done), c->peer.channel,
                         in ? "awaited" : "sent");
}

static weft_status lost(weft_conn *c, ucs_status_t why)
{
    return sockets_break(&c->peer, WEFT_PEER,
                         "UCX has lost rank %u on channel %u: %s; the peer is gone, or a network "
                         "between the two is down",
                         c->peer.rank, c->peer.channel, c->link->api->status_string(why));
}

static void read_side_channel(weft_conn *c)
{
    char last = 0;
    c->peer.io.readable = false;
    while (c->gone == GONE_NOT) {
        const ssize_t n = recv(c->peer.io.fd, &last, 1, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        c->gone = n <= 0 ? GONE_DIED : last == 'A' ? GONE_ABORTED : GONE_LEFT;
    }
}

void ucx_events(weft_link *l, int64_t timeout_us)
{
    sockets_events(&l->net, timeout_us);
    l->events.readable = false;
    for (weft_conn *c = ucx_first(l); c; c = ucx_next(c))
        if (c->peer.up && c->peer.io.readable)
            read_side_channel(c);
}

/* A peer that has left or died explains every error, so that is looked at first. */
weft_status ucx_message_failed(weft_conn *c, const message *m, bool sending)
{
    if (!sending && (m->status == UCS_OK || m->status == UCS_ERR_MESSAGE_TRUNCATED))
        return sockets_break(
            &c->peer, WEFT_PEER,
            "message %llu of channel %u: rank %u sent %llu bytes, this rank expects %llu",
            (unsigned long long)c->in.done, c->peer.channel, c->peer.rank,
            (unsigned long long)m->came, (unsigned long long)m->bytes);
    if (c->peer.broken == WEFT_OK)
        ucx_events(c->link, 0);
    return c->gone != GONE_NOT ? left(c) : lost(c, m->status);
}

/* Nothing more comes: nothing has moved for a while, or only other connections still do. */
static bool is_over(weft_conn *c)
{
    const weft_link *l = c->link;
    const uint64_t gap = sockets_gap_us(&c->looked);
    (void)ucx_turn(c->link);
    c->quiet = c->moves == l->moves ? c->quiet + gap : 0;
    c->moves = l->moves;
    c->gone_for += gap;
    return c->quiet > GRACE_US || c->gone_for > DRAIN_US;
}

void ucx_check_peer(weft_conn *c)
{
    if (c->gone == GONE_ABORTED)
        (void)!left(c);
    if (c->gone == GONE_ABORTED || (c->gone == GONE_NOT && c->failed == UCS_OK) ||
        (c->ready && !ucx_has_posted(c)) || !is_over(c))
        return;
    (void)!(c->gone != GONE_NOT ? left(c) : lost(c, c->failed));
}
