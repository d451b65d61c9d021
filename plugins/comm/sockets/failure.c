/* failure.c: errors as sentences. A sentence for a call is recorded with the host; one for a peer
 * stays in the peer, so that every later call on it reports the same cause. */
#include "sockets.h"

#include <stdarg.h>
#include <stdio.h>

weft_status sockets_fail(const weft_host *host, weft_status code, const char *fmt, ...)
{
    char text[SOCKETS_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->fail(host->ctx, code, text);
}

weft_status sockets_break(sockets_peer *p, weft_status code, const char *fmt, ...)
{
    va_list args;
    if (p->broken == WEFT_OK) {
        va_start(args, fmt);
        vsnprintf(p->why, sizeof p->why, fmt, args);
        va_end(args);
        p->broken = code;
    }
    return p->broken;
}

weft_status sockets_link_usable(const sockets_link *l)
{
    if (atomic_load_explicit(&l->aborted, memory_order_relaxed))
        return sockets_fail(l->host, WEFT_PEER, "this rank has aborted its %s connections",
                            l->transport->name);
    return WEFT_OK;
}

weft_status sockets_usable(const sockets_peer *p)
{
    const weft_host *host = p->link->host;
    weft_status st = sockets_link_usable(p->link);
    if (st == WEFT_OK && p->broken != WEFT_OK)
        return host->fail(host->ctx, p->broken, p->why);
    return st;
}

const weft_host_tls *sockets_tls(const weft_host *host, const char *transport)
{
    const weft_host_tls *tls = host->iface(host->ctx, "weft.host.tls/1");
    if (!tls)
        (void)!sockets_fail(host, WEFT_UNSUPPORTED,
                            "%s needs a host that can authenticate sockets (weft.host.tls/1), and "
                            "this host cannot",
                            transport);
    return tls;
}
