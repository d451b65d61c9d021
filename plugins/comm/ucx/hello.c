/* hello.c: the first message in each direction: its tag, and the sender's own, which both ends know
 * from the side channel alone. With it the way through UCX is known to work.
 *
 * UCX pairs the endpoints of two workers by the order in which each is made. So the lower rank
 * makes those to one peer one after another, and the higher rank makes its own when the hello
 * arrives. */
#include "ucx.h"

static bool begins(const weft_conn *c)
{
    return c->link->net.rank < c->peer.rank;
}

/* Has another connection with this peer an endpoint at one end alone? */
static bool is_pairing(const weft_conn *c)
{
    for (const weft_conn *o = ucx_first(c->link); o; o = ucx_next(o))
        if (o != c && o->peer.rank == c->peer.rank && o->greeted && !o->ready &&
            o->peer.broken == WEFT_OK)
            return true;
    return false;
}

/* Receive the hello once it has come. So UCX makes its buffers for early messages now, and not in a
 * step. */
static void take(weft_conn *c)
{
    const weft_link *l = c->link;
    ucp_tag_recv_info_t info;
    if (!l->api->tag_probe(l->worker, c->mine | 1, UINT64_MAX, 0, &info))
        return;
    c->came = true;
    c->hello_in = (message){.conn = c, .at = &c->hello_theirs, .bytes = sizeof c->hello_theirs};
    ucx_issue_recv(&c->hello_in, c->mine | 1);
}

static void greet(weft_conn *c)
{
    c->greeted = true;
    c->hello_mine = c->mine;
    c->hello_out = (message){.conn = c, .at = &c->hello_mine, .bytes = sizeof c->hello_mine};
    if (ucx_open_endpoint(c) == WEFT_OK)
        ucx_issue_send(&c->hello_out, c->theirs | 1);
}

static bool is_wrong(const weft_conn *c)
{
    const message *m = &c->hello_in;
    return m->status == UCS_ERR_MESSAGE_TRUNCATED ||
           (m->status == UCS_OK && (m->came != m->bytes || c->hello_theirs != c->theirs));
}

static void check_hello(weft_conn *c)
{
    const message *in = &c->hello_in, *out = &c->hello_out;
    if (in->finished && is_wrong(c))
        (void)!sockets_break(&c->peer, WEFT_DATA,
                             "the first message of rank %u on channel %u is not a hello of ucx",
                             c->peer.rank, c->peer.channel);
    else if (in->finished && in->status != UCS_OK)
        (void)!ucx_message_failed(c, in, false);
    else if (out->finished && out->status != UCS_OK)
        (void)!ucx_message_failed(c, out, true);
    else if (in->finished && out->finished)
        c->ready = true;
}

void ucx_greet(weft_link *l)
{
    for (weft_conn *c = ucx_first(l); c; c = ucx_next(c)) {
        if (!c->peer.up || c->ready || c->peer.broken != WEFT_OK)
            continue;
        c->unseen = false;
        if (!c->came)
            take(c);
        if (!c->greeted && (begins(c) ? !is_pairing(c) : c->hello_in.finished))
            greet(c);
        if (c->peer.broken == WEFT_OK)
            check_hello(c);
        if (c->ready)
            ucx_issue(c);
        else if (c->peer.broken == WEFT_OK)
            ucx_check_peer(c);
    }
}
