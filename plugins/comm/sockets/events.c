/* events.c: the epoll set of a link, and the eventfd in it that wakes its thread. Each socket is
 * added once, so a step costs no epoll_ctl(). */
#include "sockets.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

uint64_t sockets_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

uint64_t sockets_gap_us(uint64_t *looked)
{
    const uint64_t now = sockets_now_us(), gap = *looked ? now - *looked : 0;
    *looked = now;
    return gap < SOCKETS_GAP_US ? gap : SOCKETS_GAP_US;
}

weft_status sockets_watch(sockets_link *l, sockets_source *s, int epoll_operation)
{
    uint32_t events = EPOLLIN;
    if (s->kind == SOCKETS_PENDING || s->kind == SOCKETS_PEER)
        events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    struct epoll_event e = {.events = events, .data.ptr = s};
    if (epoll_ctl(l->epoll, epoll_operation, s->fd, &e) != 0)
        return sockets_fail(l->host, WEFT_IO, "%s cannot watch a descriptor: %s",
                            l->transport->name, strerror(errno));
    return WEFT_OK;
}

/* Microseconds where the kernel has epoll_pwait2, else milliseconds, rounded up. */
static int sleep_on(int epoll, struct epoll_event *e, int max, int64_t timeout_us)
{
    if (timeout_us <= 0)
        return epoll_wait(epoll, e, max, 0);
    struct timespec t = {timeout_us / 1000000, timeout_us % 1000000 * 1000};
    int n = epoll_pwait2(epoll, e, max, &t, NULL);
    if (n < 0 && errno != EINTR)
        n = epoll_wait(epoll, e, max, (int)((timeout_us + 999) / 1000));
    return n;
}

int sockets_events(sockets_link *l, int64_t timeout_us)
{
    struct epoll_event e[64];
    uint64_t count;
    l->round++;
    int n = sleep_on(l->epoll, e, 64, timeout_us);
    for (int i = 0; i < n; i++) {
        sockets_source *s = e[i].data.ptr;
        bool lost = (e[i].events & (EPOLLERR | EPOLLHUP)) != 0; /* a read or write reports why */
        s->readable |= lost || (e[i].events & (EPOLLIN | EPOLLRDHUP)) != 0;
        s->received |= (e[i].events & EPOLLIN) != 0;
        s->ended |= lost || (e[i].events & EPOLLRDHUP) != 0;
        s->writable |= lost || (e[i].events & EPOLLOUT) != 0;
        if (s->kind == SOCKETS_WAKE)
            while (read(s->fd, &count, sizeof count) > 0)
                continue;
    }
    return n;
}

bool sockets_has_work(sockets_link *l)
{
    if (atomic_exchange(&l->woken, false) || atomic_load(&l->aborted) || l->listener.readable)
        return true;
    for (const sockets_pending *c = l->pending; c; c = c->next)
        if (c->io.readable || c->io.writable)
            return true;
    return false;
}

void sockets_wake(sockets_link *l)
{
    uint64_t one = 1;
    atomic_store(&l->woken, true);
    ssize_t n = write(l->waker.fd, &one, sizeof one); /* a full counter wakes, too */
    (void)n;
}
