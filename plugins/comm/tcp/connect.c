/* connect.c: connections, from the core's request to their end. The lower rank of a pair listens,
 * the higher dials. A connection that failed stays failed, with the sentence that says why. */
#include "tcp.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

weft_status tcp_address(weft_link *l, void *out, uint64_t *bytes)
{
    if (*bytes < ADDRESS)
        return tcp_fail(l->host, WEFT_USAGE, "an address of tcp takes %d bytes", ADDRESS);
    tcp_pack(&l->bound, out);
    *bytes = ADDRESS;
    return WEFT_OK;
}

weft_status tcp_break(weft_conn *c, weft_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, args);
    va_end(args);
    c->broken = code;
    return c->link->host->fail(c->link->host->ctx, code, c->why);
}

weft_status tcp_usable(weft_conn *c)
{
    weft_link *l = c->link;
    if (atomic_load_explicit(&l->aborted, memory_order_relaxed))
        return tcp_fail(l->host, WEFT_PEER, "this rank has given its tcp connections up");
    if (c->broken != WEFT_OK)
        return l->host->fail(l->host->ctx, c->broken, c->why);
    return WEFT_OK;
}

weft_status tcp_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                        uint64_t bytes, weft_conn **out)
{
    endpoint to;
    if (peer == l->rank || peer >= l->ranks)
        return tcp_fail(l->host, WEFT_USAGE, "tcp was to connect rank %u with rank %u of %u",
                        l->rank, peer, l->ranks);
    weft_status st = tcp_unpack(l, peer, address, bytes, &to);
    if (st != WEFT_OK)
        return st;
    weft_conn *c = l->host->alloc(l->host->ctx, sizeof *c, 0);
    if (!c)
        return tcp_fail(l->host, WEFT_NO_MEMORY, "no memory for a connection");
    c->io = (source){.kind = SOURCE_CONN, .fd = -1};
    c->link = l;
    c->peer = peer;
    c->channel = channel;
    c->to = to;
    pthread_mutex_lock(&l->lock);
    c->next = l->conns;
    l->conns = c;
    pthread_mutex_unlock(&l->lock);
    l->settled = false;
    st = peer < l->rank ? tcp_dial(c) : tcp_listen(l);
    if (st != WEFT_OK) {
        tcp_disconnect(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

weft_status tcp_ready(weft_conn *c)
{
    weft_link *l = c->link;
    weft_status st = tcp_usable(c);
    if (st != WEFT_OK || c->up)
        return st;
    tcp_events(l, 0);
    tcp_handshake_step(l);
    if (l->listener.readable || l->strangers == PLACES) {
        tcp_accept(l);
        tcp_handshake_step(l);
    }
    tcp_settle(l);
    st = tcp_usable(c);
    if (st != WEFT_OK || c->up)
        return st;
    return c->why[0] != '\0' ? l->host->fail(l->host->ctx, WEFT_BUSY, c->why) : WEFT_BUSY;
}

/* The socket has proved itself and is the connection's from here on. */
void tcp_adopt(weft_conn *c, int fd, weft_tls *tls)
{
    pthread_mutex_lock(&c->link->lock);
    c->io = (source){.kind = SOURCE_CONN, .fd = fd, .readable = true, .writable = true};
    if (atomic_load(&c->link->aborted))
        shutdown(fd, SHUT_RDWR);
    pthread_mutex_unlock(&c->link->lock);
    c->tls = tls;
    c->up = true;
    c->why[0] = '\0';
    if (tcp_watch(c->link, &c->io, EPOLL_CTL_MOD) != WEFT_OK)
        c->broken = WEFT_IO;
}

void tcp_disconnect(weft_conn *c)
{
    if (!c)
        return;
    weft_link *l = c->link;
    pthread_mutex_lock(&l->lock);
    weft_conn **at = &l->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (c->io.fd >= 0)
        close(c->io.fd);
    pthread_mutex_unlock(&l->lock);
    if (c->greeting)
        tcp_drop_handshake(l, c->greeting);
    if (c->tls)
        l->tls->end(c->tls);
    tcp_settle(l);
    l->host->free(l->host->ctx, c);
}
