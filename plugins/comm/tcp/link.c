/* link.c: the link of one rank. It listens on the one address that it was given, on a port that the
 * system chooses; owns the epoll set and the eventfd that wake() rings; and sleeps. */
#include "tcp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

weft_status tcp_fail(const weft_host *host, weft_status code, const char *fmt, ...)
{
    char text[WHY];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return host->fail(host->ctx, code, text);
}

uint64_t tcp_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static weft_status broken(weft_link *l, const char *what)
{
    return tcp_fail(l->host, WEFT_IO, "tcp cannot %s: %s", what, strerror(errno));
}

weft_status tcp_watch(weft_link *l, source *s, int op)
{
    uint32_t events = EPOLLIN;
    if (s->kind == SOURCE_GREETING || s->kind == SOURCE_CONN)
        events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    struct epoll_event e = {.events = events, .data.ptr = s};
    return epoll_ctl(l->epoll, op, s->fd, &e) == 0 ? WEFT_OK : broken(l, "watch a socket");
}

static weft_status start(weft_link *l, const weft_link_args *args)
{
    if (!l->tls)
        return tcp_fail(l->host, WEFT_UNSUPPORTED,
                        "tcp needs a host that can authenticate sockets, and this one cannot");
    if (!args->job_id || strlen(args->job_id) >= sizeof l->job || args->rank >= args->ranks)
        return tcp_fail(l->host, WEFT_USAGE, "tcp was given no lawful job, rank %u of %u",
                        args->rank, args->ranks);
    memcpy(l->job, args->job_id, strlen(args->job_id));
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->waker = (source){.kind = SOURCE_WAKE, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (l->epoll < 0 || l->waker.fd < 0)
        return broken(l, "open an event descriptor");
    weft_status st = tcp_watch(l, &l->waker, EPOLL_CTL_ADD);
    if (st == WEFT_OK)
        st = tcp_parse(l->host, args->bind_addr, &l->bound);
    return st != WEFT_OK ? st : tcp_open_listener(l);
}

/* On one machine nothing has to be under way for long, and what fits the caches is copied twice as
 * fast: the ranks share 1 MiB. */
static int send_buffer_here(uint32_t ranks)
{
    int share = (1 << 20) / (int)(ranks > 1 ? ranks : 2);
    return share < 65536 ? 65536 : share;
}

weft_status tcp_create(void *module, const weft_link_args *args, weft_link **out)
{
    tcp_module *m = module;
    const weft_host *host = m->host;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return tcp_fail(host, WEFT_NO_MEMORY, "no memory for a link");
    l->host = host;
    l->tls = host->iface(host->ctx, "weft.host.tls/1");
    l->rank = args->rank;
    l->ranks = args->ranks;
    l->encrypt = args->conf->integer(args->conf->ctx, "encrypt") != 0;
    l->sndbuf = (int)args->conf->integer(args->conf->ctx, "sndbuf");
    if (l->sndbuf == 0 && args->local_ranks == args->ranks)
        l->sndbuf = send_buffer_here(args->local_ranks);
    l->rcvbuf = (int)args->conf->integer(args->conf->ctx, "rcvbuf");
    l->epoll = l->listener.fd = l->waker.fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    weft_status st = start(l, args);
    if (st != WEFT_OK) {
        tcp_destroy(l);
        return st;
    }
    *out = l;
    return WEFT_OK;
}

void tcp_destroy(weft_link *l)
{
    if (!l)
        return;
    while (l->conns)
        tcp_disconnect(l->conns);
    while (l->greetings)
        tcp_drop_handshake(l, l->greetings);
    int open[] = {l->listener.fd, l->waker.fd, l->epoll};
    for (unsigned i = 0; i < sizeof open / sizeof open[0]; i++)
        if (open[i] >= 0)
            close(open[i]);
    pthread_mutex_destroy(&l->lock);
    l->host->free(l->host->ctx, l);
}

/* Microseconds where the kernel has them, else milliseconds rounded up. */
static int sleep_on(int epoll, struct epoll_event *e, int cap, int64_t timeout_us)
{
    if (timeout_us <= 0)
        return epoll_wait(epoll, e, cap, 0);
    struct timespec t = {timeout_us / 1000000, timeout_us % 1000000 * 1000};
    int n = epoll_pwait2(epoll, e, cap, &t, NULL);
    if (n < 0 && errno != EINTR)
        n = epoll_wait(epoll, e, cap, (int)((timeout_us + 999) / 1000));
    return n;
}

int tcp_events(weft_link *l, int64_t timeout_us)
{
    struct epoll_event e[64];
    uint64_t rung;
    l->round++;
    int n = sleep_on(l->epoll, e, 64, timeout_us);
    for (int i = 0; i < n; i++) {
        source *s = e[i].data.ptr;
        bool lost = (e[i].events & (EPOLLERR | EPOLLHUP)) != 0; /* found by trying */
        s->readable |= lost || (e[i].events & (EPOLLIN | EPOLLRDHUP)) != 0;
        s->heard |= (e[i].events & EPOLLIN) != 0;
        s->ended |= lost || (e[i].events & EPOLLRDHUP) != 0;
        s->writable |= lost || (e[i].events & EPOLLOUT) != 0;
        if (s->kind == SOURCE_WAKE)
            while (read(s->fd, &rung, sizeof rung) > 0)
                continue;
    }
    return n;
}

/* Would a call on some connection find work now? */
static bool anything(weft_link *l)
{
    if (atomic_exchange(&l->woken, false) || atomic_load(&l->aborted) || l->listener.readable)
        return true;
    for (greeting *g = l->greetings; g; g = g->next)
        if (g->io.readable || g->io.writable)
            return true;
    for (weft_conn *c = l->conns; c; c = c->next)
        if (tcp_can_move(c))
            return true;
    return false;
}

weft_status tcp_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    if (!anything(l)) {
        uint64_t until = spin_us > 0 ? tcp_now_us() + spin_us : 0;
        do {
            if (tcp_events(l, 0) > 0 && anything(l))
                return WEFT_OK;
        } while (until > 0 && tcp_now_us() < until);
        uint32_t most = tcp_pause_us(l);
        tcp_events(l, timeout_us < most ? timeout_us : most);
    }
    if (atomic_load(&l->aborted))
        return tcp_fail(l->host, WEFT_PEER, "this rank has given its tcp connections up");
    return WEFT_OK;
}

void tcp_wake(weft_link *l)
{
    uint64_t one = 1;
    atomic_store(&l->woken, true);
    ssize_t n = write(l->waker.fd, &one, sizeof one); /* full means rung already */
    (void)n;
}

void tcp_abort(weft_link *l)
{
    atomic_store(&l->aborted, true);
    pthread_mutex_lock(&l->lock);
    for (weft_conn *c = l->conns; c; c = c->next)
        if (c->io.fd >= 0)
            shutdown(c->io.fd, SHUT_RDWR);
    pthread_mutex_unlock(&l->lock);
    tcp_wake(l);
}
