/* connect.c: connections, from the core's request to their end. */
#include "ucx.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const uint8_t magic[4] = {'w', 'f', 'u', 'T'};

/* A tag that nobody can guess; the last bit is free for the hello. */
static weft_status draw(const weft_host *host, uint64_t *tag)
{
    if (getrandom(tag, sizeof *tag, 0) != sizeof *tag)
        return sockets_fail(host, WEFT_IO, "the system has no random numbers: %s", strerror(errno));
    *tag &= ~1ull;
    return WEFT_OK;
}

static weft_status begin(weft_conn *c, uint32_t peer, uint32_t channel, const void *address,
                         uint64_t bytes)
{
    weft_link *l = c->link;
    weft_status st = sockets_peer_init(&l->net, &c->peer, peer, channel, address,
                                       bytes > ADDRESS_HEAD ? SOCKETS_ADDRESS : bytes);
    if (st == WEFT_OK)
        st = ucx_check_address(l, peer, address, bytes);
    if (st == WEFT_OK)
        st = draw(l->net.host, &c->mine);
    if (st != WEFT_OK)
        return st;
    memcpy(c->address, address, bytes);
    c->address_bytes = bytes;
    return sockets_connect(&c->peer);
}

weft_status ucx_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                        uint64_t bytes, weft_conn **out)
{
    const weft_host *host = l->net.host;
    weft_conn *c = host->alloc(host->ctx, sizeof *c, 64);
    if (!c)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for a connection");
    c->link = l;
    c->peer.io.fd = -1;
    c->peer.link = &l->net;
    const weft_status st = begin(c, peer, channel, address, bytes);
    if (st != WEFT_OK) {
        ucx_disconnect(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

void ucx_describe(const sockets_peer *p, uint8_t *out)
{
    const weft_conn *c = (const weft_conn *)p;
    memset(out, 0, DESCRIPTION);
    memcpy(out, magic, sizeof magic);
    memcpy(out + 8, &c->mine, sizeof c->mine);
}

/* The other end is authenticated. An earlier attempt may have come this far already. */
weft_status ucx_join(sockets_peer *p, const uint8_t *theirs)
{
    weft_conn *c = (weft_conn *)p;
    uint64_t tag;
    memcpy(&tag, theirs + 8, sizeof tag);
    if (memcmp(theirs, magic, sizeof magic) != 0 || (tag & 1) != 0 ||
        (c->joined && tag != c->theirs))
        return sockets_break(p, WEFT_DATA,
                             "cannot set up channel %u with rank %u: its description of its end is "
                             "not valid; do all ranks run the same version?",
                             p->channel, p->rank);
    if (c->joined)
        return WEFT_OK;
    c->theirs = tag;
    c->joined = true;
    return WEFT_OK;
}

weft_status ucx_ready(weft_conn *c)
{
    weft_link *l = c->link;
    if (!c->ready)
        ucx_events(l, 0);
    weft_status st = sockets_ready(&c->peer);
    (void)ucx_turn(l);
    ucx_greet(l); /* a peer may wait for it while this rank waits for another peer */
    if (st == WEFT_OK)
        st = sockets_usable(&c->peer);
    if (st != WEFT_OK || c->ready)
        return st;
    return l->net.host->fail(l->net.host->ctx, WEFT_BUSY,
                             "the peer is authenticated, and UCX has not carried the first message "
                             "in both directions yet");
}

static bool in_flight(const weft_conn *c, bool receives)
{
    bool any = c->hello_out.request || (receives && c->hello_in.request);
    for (uint64_t i = c->out.done; i < c->out.issued; i++)
        any |= c->out.m[i % QUEUE].request != NULL;
    for (uint64_t i = c->in.done; receives && i < c->in.issued; i++)
        any |= c->in.m[i % QUEUE].request != NULL;
    return any;
}

static void turn_until_idle(weft_conn *c, bool receives, uint64_t us, bool while_alive)
{
    uint64_t looked = 0, passed = 0;
    for (; in_flight(c, receives) && passed < us; passed += sockets_gap_us(&looked)) {
        if (ucx_turn(c->link))
            continue;
        ucx_events(c->link, 100);
        if (while_alive &&
            (c->gone != GONE_NOT || atomic_load(&c->link->net.aborted) || c->failed != UCS_OK))
            return;
    }
}

static void cancel(const weft_conn *c, message *m)
{
    if (m->request)
        c->link->api->request_cancel(c->link->worker, m->request);
}

/* What was sent may still be on its way: a healthy connection waits for it. A receive that no
 * message has met is cancelled. What remains, a message that the peer is fetching or ought to,
 * ends with the endpoint. */
static void drain(weft_conn *c)
{
    const bool alive = c->ready && c->peer.broken == WEFT_OK && c->gone == GONE_NOT &&
                       !atomic_load(&c->link->net.aborted);
    if (alive)
        turn_until_idle(c, false, DRAIN_US, true);
    cancel(c, &c->hello_in);
    for (uint64_t i = c->in.done; i < c->in.issued; i++)
        cancel(c, &c->in.m[i % QUEUE]);
    turn_until_idle(c, true, alive ? GRACE_US : 0, false);
    const bool stuck = in_flight(c, true);
    ucx_close_endpoint(c, stuck || !alive || c->gone != GONE_NOT || c->failed != UCS_OK);
    turn_until_idle(c, true, DRAIN_US, false);
}

void ucx_disconnect(weft_conn *c)
{
    if (!c)
        return;
    weft_link *l = c->link;
    const weft_host *host = l->net.host;
    drain(c);
    const bool alive = c->ready && c->peer.broken == WEFT_OK && c->gone == GONE_NOT;
    if (alive && !atomic_load(&l->net.aborted))
        (void)!send(c->peer.io.fd, "B", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    sockets_disconnect(&c->peer);
    host->free(host->ctx, c);
}
