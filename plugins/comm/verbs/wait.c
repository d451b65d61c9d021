/* wait.c: events and sleeping.
 *
 * Work is found by polling completion queues, which costs no system call. Before it sleeps, a link
 * asks each queue of a connection with posted work for an event, polls once more (what came before
 * the request makes no event), and sleeps in one epoll set with the side channels, the devices'
 * own events and the eventfd that wake() rings. */
#include "verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

uint64_t verbs_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

weft_status verbs_watch(weft_link *l, source *s, int op)
{
    uint32_t events = EPOLLIN;
    if (s->kind == SOURCE_GREETING || s->kind == SOURCE_LINE)
        events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    struct epoll_event e = {.events = events, .data.ptr = s};
    return epoll_ctl(l->epoll, op, s->fd, &e) == 0
               ? WEFT_OK
               : verbs_fail(l->host, WEFT_IO, "verbs cannot watch a descriptor: %s",
                            strerror(errno));
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

/* A queue that made an event has to be asked again for the next. */
static void take_events(weft_link *l, rail *r)
{
    struct ibv_cq *cq;
    void *mine;
    while (l->api->get_cq_event(r->channel, &cq, &mine) == 0) {
        weft_conn *c = mine;
        l->api->ack_cq_events(cq, 1);
        for (uint32_t i = 0; i < l->nrails; i++)
            if (c->cq[i] == cq)
                c->armed[i] = false;
    }
}

int verbs_events(weft_link *l, int64_t timeout_us)
{
    struct epoll_event e[64];
    uint64_t rung;
    int n = sleep_on(l->epoll, e, 64, timeout_us);
    for (int i = 0; i < n; i++) {
        source *s = e[i].data.ptr;
        bool lost = (e[i].events & (EPOLLERR | EPOLLHUP)) != 0; /* found by trying */
        s->readable |= lost || (e[i].events & (EPOLLIN | EPOLLRDHUP)) != 0;
        s->heard |= (e[i].events & EPOLLIN) != 0;
        s->writable |= lost || (e[i].events & EPOLLOUT) != 0;
        if (s->kind == SOURCE_WAKE)
            while (read(s->fd, &rung, sizeof rung) > 0)
                continue;
    }
    for (uint32_t i = 0; i < l->nrails; i++) {
        rail *r = &l->rail[i];
        if (r->events.readable)
            take_events(l, r);
        if (r->trouble.readable)
            verbs_trouble(l, r);
        r->events.readable = r->trouble.readable = false;
    }
    for (weft_conn *c = l->conns; c; c = c->next)
        if (c->up && c->line.readable)
            verbs_read_line(c);
    return n;
}

/* Would a call on some connection find work now? */
static bool anything(weft_link *l)
{
    bool found =
        atomic_exchange(&l->woken, false) || atomic_load(&l->aborted) || l->listener.readable;
    for (greeting *g = l->greetings; g; g = g->next)
        found |= g->io.readable || g->io.writable;
    for (weft_conn *c = l->conns; c; c = c->next) {
        if (c->up && c->broken == WEFT_OK)
            c->news |= verbs_poll(c);
        found |= (c->news || c->broken != WEFT_OK) && verbs_waits(c);
    }
    return found;
}

static void arm(weft_link *l)
{
    for (weft_conn *c = l->conns; c; c = c->next)
        for (uint32_t i = 0; c->up && verbs_waits(c) && i < l->nrails; i++)
            if (c->cq[i] && !c->armed[i])
                c->armed[i] = ibv_req_notify_cq(c->cq[i], 0) == 0;
}

/* What has a deadline of its own shortens the sleep: attempts to dial, a port that is down, peers
 * that have left, a sender that waits for a credit. */
static uint32_t shorten(const weft_link *l, uint32_t timeout_us)
{
    uint32_t pause = verbs_pause_us(l), most = timeout_us < pause ? timeout_us : pause;
    bool soon = false;
    for (uint32_t i = 0; i < l->nrails; i++)
        soon |= l->rail[i].down_since != 0;
    if (soon && most > 100000)
        most = 100000;
    for (const weft_conn *c = l->conns; c; c = c->next) {
        if (c->gone != GONE_NOT && most > 10000)
            most = 10000;
        if (c->blocked_since != 0 && most > BLOCKED_US)
            most = BLOCKED_US;
    }
    return most;
}

weft_status verbs_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    bool found = anything(l);
    uint64_t until = !found && spin_us > 0 ? verbs_now_us() + spin_us : 0;
    while (!found && until > 0 && verbs_now_us() < until) {
        for (int i = 0; i < 32 && !found; i++) {
            weft_pause();
            found = anything(l);
        }
    }
    if (!found) {
        arm(l);
        found = anything(l);
    }
    verbs_events(l, found ? 0 : shorten(l, timeout_us));
    if (atomic_load(&l->aborted))
        return verbs_fail(l->host, WEFT_PEER, "this rank has given its verbs connections up");
    return WEFT_OK;
}
