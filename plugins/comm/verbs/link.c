/* link.c: the link of one rank: its rails, its epoll set, and its end. */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

weft_status verbs_fail(const weft_host *host, weft_status code, const char *fmt, ...)
{
    char text[WHY];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->fail(host->ctx, code, text);
}

static weft_status broken(weft_link *l, const char *what)
{
    return verbs_fail(l->host, WEFT_IO, "verbs cannot %s: %s", what, strerror(errno));
}

static weft_status quiet(weft_link *l, source *s, int fd)
{
    *s = (source){.kind = SOURCE_RAIL, .fd = fd};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return broken(l, "watch a device");
    return verbs_watch(l, s, EPOLL_CTL_ADD);
}

static weft_status open_rail(weft_link *l, rail *r)
{
    r->pd = l->api->alloc_pd(r->context);
    r->channel = r->pd ? l->api->create_comp_channel(r->context) : NULL;
    if (!r->channel)
        return verbs_fail(l->host, WEFT_IO, "RDMA device %s cannot be used: %s", r->name,
                          strerror(errno));
    weft_status st = quiet(l, &r->events, r->channel->fd);
    return st != WEFT_OK ? st : quiet(l, &r->trouble, r->context->async_fd);
}

static weft_status open_rails(weft_link *l)
{
    weft_status st = verbs_rails(l->host, l->api, &l->wish, &l->bound, l->rail, &l->nrails);
    for (uint32_t i = 0; st == WEFT_OK && i < l->nrails; i++)
        st = open_rail(l, &l->rail[i]);
    return st;
}

static weft_status start(weft_link *l, verbs_module *m, const weft_link_args *args)
{
    if (!l->tls)
        return verbs_fail(l->host, WEFT_UNSUPPORTED,
                          "verbs needs a host that can authenticate sockets, and this one cannot");
    if (!args->job_id || strlen(args->job_id) >= sizeof l->job || args->rank >= args->ranks)
        return verbs_fail(l->host, WEFT_USAGE, "verbs was given no lawful job, rank %u of %u",
                          args->rank, args->ranks);
    memcpy(l->job, args->job_id, strlen(args->job_id));
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->waker = (source){.kind = SOURCE_WAKE, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (l->epoll < 0 || l->waker.fd < 0)
        return broken(l, "open an event descriptor");
    weft_status st = verbs_watch(l, &l->waker, EPOLL_CTL_ADD);
    if (st == WEFT_OK)
        st = verbs_parse(l->host, args->bind_addr, &l->bound);
    if (st == WEFT_OK)
        st = verbs_open_listener(l);
    if (st == WEFT_OK)
        st = verbs_load(m);
    if (st == WEFT_OK)
        st = verbs_wish(l->host, args->conf, &l->wish);
    return st != WEFT_OK ? st : open_rails(l);
}

static void report(weft_link *l)
{
    char text[WHY];
    size_t used = 0;
    if (!l->host->log_enabled(l->host->ctx, WEFT_LOG_DEBUG))
        return;
    for (uint32_t i = 0; i < l->nrails && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s port %u, GID %u, MTU %d",
                                 i > 0 ? "; " : "verbs uses ", l->rail[i].name, l->rail[i].port,
                                 l->rail[i].gid_index, 128 << l->rail[i].mtu);
    l->host->log(l->host->ctx, WEFT_LOG_DEBUG, text);
}

weft_status verbs_create(void *module, const weft_link_args *args, weft_link **out)
{
    verbs_module *m = module;
    const weft_host *host = m->host;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return verbs_fail(host, WEFT_NO_MEMORY, "no memory for a link");
    l->host = host;
    l->api = &m->api;
    l->tls = host->iface(host->ctx, "weft.host.tls/1");
    l->rank = args->rank;
    l->ranks = args->ranks;
    l->epoll = l->listener.fd = l->waker.fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    weft_status st = start(l, m, args);
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
    while (l->conns)
        verbs_disconnect(l->conns);
    while (l->greetings)
        verbs_drop_handshake(l, l->greetings);
    while (l->regions)
        verbs_deregister(l->regions);
    for (uint32_t i = 0; i < l->nrails; i++) {
        verbs_end_loop(l->api, &l->rail[i]);
        verbs_close_rail(l->api, &l->rail[i]);
    }
    int open[] = {l->listener.fd, l->waker.fd, l->epoll};
    for (unsigned i = 0; i < sizeof open / sizeof open[0]; i++)
        if (open[i] >= 0)
            close(open[i]);
    pthread_mutex_destroy(&l->lock);
    l->host->free(l->host->ctx, l);
}

void verbs_wake(weft_link *l)
{
    uint64_t one = 1;
    atomic_store(&l->woken, true);
    ssize_t n = write(l->waker.fd, &one, sizeof one); /* full means rung already */
    (void)n;
}

/* Queue pairs are not for other threads to touch: the ends of the side channels tell both sides. */
void verbs_abort(weft_link *l)
{
    atomic_store(&l->aborted, true);
    pthread_mutex_lock(&l->lock);
    for (weft_conn *c = l->conns; c; c = c->next)
        if (c->line.fd >= 0) {
            (void)!send(c->line.fd, "A", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            shutdown(c->line.fd, SHUT_RDWR);
        }
    pthread_mutex_unlock(&l->lock);
    verbs_wake(l);
}
