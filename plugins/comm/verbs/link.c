/* link.c: the link of one rank: its rails, how it uses sockets, its end. */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static const sockets_transport transport = {
    .name = "verbs",
    .address_magic = "wfv1",
    .message_magic = "wfvH",
    .extra = ENDPOINT_BYTES,
    .code_unexpected = 1,
    .abort_byte = 'A',
    .small_buffers = true,
    .describe = verbs_describe,
    .join = verbs_join,
};

/* In the epoll set, and without blocking reads. */
static weft_status watch(weft_link *l, sockets_source *s, int fd)
{
    *s = (sockets_source){.kind = SOCKETS_OTHER, .fd = fd};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return sockets_fail(l->net.host, WEFT_IO, "verbs cannot watch a device: %s",
                            strerror(errno));
    return sockets_watch(&l->net, s, EPOLL_CTL_ADD);
}

static weft_status open_rail(weft_link *l, rail *r)
{
    r->pd = l->api->alloc_pd(r->context);
    r->channel = r->pd ? l->api->create_comp_channel(r->context) : NULL;
    if (!r->channel)
        return sockets_fail(l->net.host, WEFT_IO, "RDMA device %s cannot be used: %s", r->name,
                            strerror(errno));
    weft_status st = watch(l, &r->completions, r->channel->fd);
    return st != WEFT_OK ? st : watch(l, &r->async, r->context->async_fd);
}

static weft_status open_rails(weft_link *l)
{
    weft_status st =
        verbs_rails(l->net.host, l->api, &l->options, &l->net.bound, l->rail, &l->nrails);
    for (uint32_t i = 0; st == WEFT_OK && i < l->nrails; i++)
        st = open_rail(l, &l->rail[i]);
    return st;
}

static weft_status start(weft_link *l, verbs_module *m, const weft_link_args *args)
{
    weft_status st = sockets_open(&l->net, m->host, &transport, args);
    if (st == WEFT_OK)
        st = verbs_load(m);
    if (st == WEFT_OK)
        st = verbs_read_options(m->host, args->conf, &l->options);
    return st != WEFT_OK ? st : open_rails(l);
}

static void report(weft_link *l)
{
    char text[SOCKETS_TEXT];
    size_t used = 0;
    if (!l->net.host->log_enabled(l->net.host->ctx, WEFT_LOG_DEBUG))
        return;
    for (uint32_t i = 0; i < l->nrails && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s port %u, GID %u, MTU %d",
                                 i > 0 ? "; " : "verbs uses ", l->rail[i].name, l->rail[i].port,
                                 l->rail[i].gid_index, 128 << l->rail[i].mtu);
    l->net.host->log(l->net.host->ctx, WEFT_LOG_DEBUG, text);
}

weft_status verbs_create(void *module, const weft_link_args *args, weft_link **out)
{
    verbs_module *m = module;
    const weft_host *host = m->host;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for a link");
    l->api = &m->api;
    st = start(l, m, args);
    if (st != WEFT_OK) {
        verbs_destroy(l);
        return st;
    }
    report(l);
    *out = l;
    return WEFT_OK;
}

void verbs_destroy(weft_link *l)
{
    if (!l)
        return;
    while (verbs_first(l))
        verbs_disconnect(verbs_first(l));
    while (l->regions)
        verbs_deregister(l->regions);
    for (uint32_t i = 0; i < l->nrails; i++) {
        verbs_close_loopback(l->api, &l->rail[i]);
        verbs_close_rail(l->api, &l->rail[i]);
    }
    sockets_close(&l->net);
    l->net.host->free(l->net.host->ctx, l);
}

void verbs_wake(weft_link *l)
{
    sockets_wake(&l->net);
}

/* Other threads must not touch queue pairs: both ends learn it from the side channels. */
void verbs_abort(weft_link *l)
{
    sockets_abort(&l->net);
}
