/* link.c: one rank's end. It listens on the one address that it was given, on a port that the
 * system chooses, and owns the epoll set. */
#include "sockets.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

weft_status sockets_open(sockets_link *l, const weft_host *host, const sockets_transport *transport,
                         const weft_link_args *args)
{
    l->host = host;
    l->transport = transport;
    l->rank = args->rank;
    l->ranks = args->ranks;
    l->epoll = l->listener.fd = l->waker.fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    l->tls = sockets_tls(host, transport->name);
    if (!l->tls)
        return WEFT_UNSUPPORTED;
    if (!args->job_id || strlen(args->job_id) >= sizeof l->job || args->rank >= args->ranks)
        return sockets_fail(host, WEFT_USAGE,
                            "%s was asked to open rank %u of %u: it needs a rank below that "
                            "number, and a job id of at most %zu bytes",
                            transport->name, args->rank, args->ranks, sizeof l->job - 1);
    memcpy(l->job, args->job_id, strlen(args->job_id));
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->waker = (sockets_source){.kind = SOCKETS_WAKE, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (l->epoll < 0 || l->waker.fd < 0)
        return sockets_fail(host, WEFT_IO, "%s cannot open an event descriptor: %s",
                            transport->name, strerror(errno));
    weft_status st = sockets_watch(l, &l->waker, EPOLL_CTL_ADD);
    if (st == WEFT_OK)
        st = sockets_parse(host, transport->name, args->bind_addr, &l->bound);
    return st != WEFT_OK ? st : sockets_listen(l);
}

void sockets_close(sockets_link *l)
{
    while (l->pending)
        sockets_pending_drop(l, l->pending);
    int open[] = {l->listener.fd, l->waker.fd, l->epoll};
    for (unsigned i = 0; i < sizeof open / sizeof open[0]; i++)
        if (open[i] >= 0)
            close(open[i]);
    pthread_mutex_destroy(&l->lock);
}

void sockets_abort(sockets_link *l)
{
    const char byte = l->transport->abort_byte;
    atomic_store(&l->aborted, true);
    pthread_mutex_lock(&l->lock);
    for (sockets_peer *p = l->peers; p; p = p->next) {
        if (p->io.fd >= 0 && byte != 0)
            (void)!send(p->io.fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (p->io.fd >= 0)
            shutdown(p->io.fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&l->lock);
    sockets_wake(l);
}
