/* connect.c: connections, from the core's request to their end. */
#include "tcp.h"

weft_status tcp_address(weft_link *l, void *out, uint64_t *bytes)
{
    return sockets_address(&l->net, out, bytes);
}

weft_status tcp_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                        uint64_t bytes, weft_conn **out)
{
    const weft_host *host = l->net.host;
    weft_conn *c = host->alloc(host->ctx, sizeof *c, 0);
    if (!c)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for a connection");
    weft_status st = sockets_peer_init(&l->net, &c->peer, peer, channel, address, bytes);
    if (st == WEFT_OK)
        st = sockets_connect(&c->peer);
    if (st != WEFT_OK) {
        tcp_disconnect(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

weft_status tcp_ready(weft_conn *c)
{
    if (!c->peer.up)
        sockets_events(c->peer.link, 0);
    return sockets_ready(&c->peer);
}

void tcp_disconnect(weft_conn *c)
{
    if (!c)
        return;
    const weft_host *host = c->peer.link->host;
    sockets_disconnect(&c->peer);
    host->free(host->ctx, c);
}
