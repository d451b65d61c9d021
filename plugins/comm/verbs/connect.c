/* connect.c: connections, from the core's request to their end. */
#include "verbs.h"

#include <string.h>

weft_status verbs_address(weft_link *l, void *out, uint64_t *bytes)
{
    return sockets_address(&l->net, out, bytes);
}

weft_status verbs_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                          uint64_t bytes, weft_conn **out)
{
    const weft_host *host = l->net.host;
    weft_conn *c = host->alloc(host->ctx, sizeof *c, 64);
    if (!c)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for a connection");
    c->link = l;
    weft_status st = sockets_peer_init(&l->net, &c->peer, peer, channel, address, bytes);
    if (st == WEFT_OK)
        st = verbs_make_pairs(c);
    if (st == WEFT_OK)
        st = sockets_connect(&c->peer);
    if (st != WEFT_OK) {
        verbs_disconnect(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

void verbs_describe(const sockets_peer *p, uint8_t *out)
{
    verbs_put_endpoint_info(&((const weft_conn *)p)->mine, out);
}

/* An earlier attempt may have connected the queue pairs already. */
weft_status verbs_join(sockets_peer *p, const uint8_t *theirs)
{
    weft_conn *c = (weft_conn *)p;
    endpoint_info info;
    memset(&info, 0, sizeof info);
    if (!verbs_get_endpoint_info(theirs, &info))
        return sockets_break(p, WEFT_DATA,
                             "cannot set up channel %u with rank %u: its description of its queue "
                             "pairs is not valid; do all ranks run the same version?",
                             p->channel, p->rank);
    if (c->joined && memcmp(&info, &c->theirs, sizeof info) != 0)
        return sockets_break(p, WEFT_DATA,
                             "cannot set up channel %u with rank %u: its second description of its "
                             "queue pairs differs from the first",
                             p->channel, p->rank);
    if (c->joined)
        return WEFT_OK;
    memcpy(&c->theirs, &info, sizeof info);
    weft_status st = verbs_join_pairs(c);
    c->joined = st == WEFT_OK;
    return st;
}

weft_status verbs_ready(weft_conn *c)
{
    if (!c->peer.up)
        verbs_events(c->link, 0);
    return sockets_ready(&c->peer);
}

static bool is_drained(const weft_conn *c)
{
    for (uint32_t i = 0; i < c->pairs; i++)
        if (c->pair[i].done < c->pair[i].posted)
            return false;
    return true;
}

/* Short messages count as sent once they are posted, and a queue pair that is destroyed drops them.
 * So an empty signaled write is posted behind them, and its completion awaited. */
static void drain(weft_conn *c)
{
    sockets_peer *p = &c->peer;
    uint64_t looked = 0, passed = 0;
    bool alive = p->up && p->broken == WEFT_OK && !atomic_load(&c->link->net.aborted);
    for (uint32_t i = 0; alive && i < c->pairs; i++) {
        struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
        wr.wr.rdma.remote_addr = c->theirs.slots_at;
        wr.wr.rdma.rkey = c->theirs.slots_key;
        if (c->pair[i].signaled < c->pair[i].posted && verbs_capacity(&c->pair[i]))
            (void)!verbs_post(c, i, OP_DRAIN, &wr, true);
    }
    for (; alive && !is_drained(c) && p->broken == WEFT_OK && c->gone == GONE_NOT &&
           passed < DRAIN_US;
         passed += sockets_gap_us(&looked))
        if (!verbs_poll(c))
            verbs_events(c->link, 100);
    if (alive && p->broken == WEFT_OK)
        (void)!send(p->io.fd, "B", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void verbs_disconnect(weft_conn *c)
{
    if (!c)
        return;
    const weft_host *host = c->link->net.host;
    drain(c);
    sockets_disconnect(&c->peer);
    verbs_free_pairs(c);
    host->free(host->ctx, c);
}
