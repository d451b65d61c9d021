/* connect.c: peers, from the core's request to their end. Of two ranks the lower listens and the
 * higher dials. */
#include "sockets.h"

#include <unistd.h>

weft_status sockets_peer_init(sockets_link *l, sockets_peer *p, uint32_t rank, uint32_t channel,
                              const void *address, uint64_t bytes)
{
    p->io = (sockets_source){.kind = SOCKETS_PEER, .fd = -1};
    p->link = l;
    p->rank = rank;
    p->channel = channel;
    if (rank == l->rank || rank >= l->ranks)
        return sockets_fail(l->host, WEFT_USAGE,
                            "%s was asked to connect rank %u of %u with rank %u",
                            l->transport->name, l->rank, l->ranks, rank);
    return sockets_unpack(l, rank, address, bytes, &p->to);
}

weft_status sockets_connect(sockets_peer *p)
{
    sockets_link *l = p->link;
    pthread_mutex_lock(&l->lock);
    p->next = l->peers;
    l->peers = p;
    pthread_mutex_unlock(&l->lock);
    l->settled = false;
    return p->rank < l->rank ? sockets_dial(p) : sockets_listen(l);
}

weft_status sockets_ready(sockets_peer *p)
{
    sockets_link *l = p->link;
    weft_status st = sockets_usable(p);
    if (st != WEFT_OK || p->up)
        return st;
    sockets_handshake(l);
    if (l->listener.readable || l->unauthenticated == SOCKETS_UNAUTHENTICATED) {
        sockets_accept(l);
        sockets_handshake(l);
    }
    sockets_pause_listener(l);
    st = sockets_usable(p);
    if (st != WEFT_OK || p->up)
        return st;
    return p->why[0] != '\0' ? l->host->fail(l->host->ctx, WEFT_BUSY, p->why) : WEFT_BUSY;
}

void sockets_disconnect(sockets_peer *p)
{
    sockets_link *l = p->link;
    pthread_mutex_lock(&l->lock);
    sockets_peer **at = &l->peers;
    while (*at && *at != p)
        at = &(*at)->next;
    const bool listed = *at;
    if (listed)
        *at = p->next;
    if (p->io.fd >= 0)
        close(p->io.fd);
    p->io.fd = -1;
    pthread_mutex_unlock(&l->lock);
    if (p->pending)
        sockets_pending_drop(l, p->pending);
    if (p->tls)
        l->tls->end(p->tls);
    p->tls = NULL;
    if (listed)
        sockets_pause_listener(l);
}
