/* link.c: the link of one rank: sleep and wake-up, and peer liveness.
 *
 * No wake-up is lost. The sleeper reads its bell, sets `sleeping`, checks for work once more, and
 * sleeps on the futex unless the bell has changed. A peer changes memory first, then reads
 * `sleeping`, and rings if it is set. Each side has a full fence between its write and its read, so
 * at least one of them sees the other's write. (The older __sync builtin: gcc's thread sanitizer
 * rejects the newer one. It does not model this fence and need not: it never sees both ends of a
 * ring at one address.)
 *
 * A peer that dies cannot ring, so the wait checks the liveness of its process every LOOK_US. */
#include "shm.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void ring_bell(segment *s)
{
    atomic_fetch_add(&s->bell, 1);
    syscall(SYS_futex, &s->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void shm_notify(peer *p)
{
    __sync_synchronize();
    if (atomic_load_explicit(&p->head->sleeping, memory_order_relaxed) != 0)
        ring_bell(p->head);
}

void shm_tell(peer *p)
{
    ring_bell(p->head);
}

bool shm_news(weft_link *l)
{
    unsigned bell = atomic_load(&l->head->bell);
    bool news = l->begun || bell != l->passed;
    l->passed = bell; /* read before the check: later rings count as news again */
    l->begun = false;
    return news;
}

/* Bounds the cells of all rings of a rank together, so that many ranks fit on a machine. */
static uint32_t cells_for(uint32_t local_ranks)
{
    uint32_t cells = CELLS_MAX;
    while (cells > CELLS_MIN && cells * local_ranks > CELLS_ALL)
        cells /= 2;
    return cells;
}

static uint32_t power_of_two(int64_t v)
{
    uint32_t p = RING_MIN;
    while (p < RING_MAX && p < v)
        p *= 2;
    return p;
}

weft_status shm_create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = module;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return shm_fail(host, WEFT_NO_MEMORY, "no memory for a link");
    l->host = host;
    l->rank = args->rank;
    l->ranks = args->ranks;
    l->ring_bytes = power_of_two(args->conf->integer(args->conf->ctx, "ring"));
    l->cells = cells_for(args->local_ranks);
    l->fd = -1;
    l->alive = epoll_create1(EPOLL_CLOEXEC);
    pthread_mutex_init(&l->lock, NULL);
    st = shm_segment(l);
    if (st != WEFT_OK) {
        shm_destroy(l);
        return st;
    }
    *out = l;
    return WEFT_OK;
}

static void tell_gone(weft_link *l, unsigned how)
{
    unsigned not_yet = GONE_NOT;
    atomic_compare_exchange_strong(&l->head->gone, &not_yet, how);
    for (peer *p = l->peers; p; p = p->next)
        shm_notify(p);
}

void shm_destroy(weft_link *l)
{
    if (!l)
        return;
    while (l->conns)
        shm_disconnect(l->conns);
    if (l->head)
        tell_gone(l, GONE_CLOSED);
    while (l->peers)
        shm_close_peer(l, l->peers);
    while (l->regions)
        shm_deregister(l->regions);
    while (l->mappings) {
        mapping *m = l->mappings;
        l->mappings = m->next;
        munmap(m->base, m->bytes);
        l->host->free(l->host->ctx, m);
    }
    if (l->head)
        munmap(l->head, sizeof(segment));
    if (l->fd >= 0)
        close(l->fd);
    if (l->alive >= 0)
        close(l->alive);
    pthread_mutex_destroy(&l->lock);
    l->host->free(l->host->ctx, l);
}

weft_status shm_address(weft_link *l, void *out, uint64_t *bytes)
{
    if (*bytes < sizeof l->self)
        return shm_fail(l->host, WEFT_USAGE, "an address of shm takes %zu bytes", sizeof l->self);
    memcpy(out, &l->self, sizeof l->self);
    *bytes = sizeof l->self;
    return WEFT_OK;
}

static void look(weft_link *l, uint64_t now)
{
    l->idle = 0;
    if (now - l->looked < LOOK_US)
        return;
    l->looked = now;
    struct epoll_event e[16];
    int n = l->alive >= 0 ? epoll_wait(l->alive, e, 16, 0) : 0;
    for (int i = 0; i < n; i++) {
        peer *p = e[i].data.ptr;
        p->dead = true;
        p->watched = epoll_ctl(l->alive, EPOLL_CTL_DEL, p->pidfd, NULL) != 0; /* reported once */
    }
    for (peer *p = l->peers; p; p = p->next)
        if (!p->watched && !p->dead) /* a kernel without pidfds */
            p->dead = kill(p->pid, 0) != 0 && errno == ESRCH;
}

void shm_look(weft_link *l)
{
    look(l, now_us());
}

/* Would progress on any connection find work now? */
static bool anything(weft_link *l)
{
    if (atomic_load_explicit(&l->woken, memory_order_relaxed) || atomic_load(&l->aborted))
        return true;
    for (weft_conn *c = l->conns; c; c = c->next)
        if (shm_can_move(c))
            return true;
    return false;
}

static bool setting_up(const weft_link *l)
{
    for (const weft_conn *c = l->conns; c; c = c->next)
        if (!c->up)
            return true;
    return false;
}

static void sleep_once(weft_link *l, uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
    unsigned bell = atomic_load(&l->head->bell);
    atomic_store(&l->head->sleeping, 1);
    __sync_synchronize();
    bool told = bell != l->passed && setting_up(l);
    if (!told && !anything(l))
        syscall(SYS_futex, &l->head->bell, FUTEX_WAIT, bell, &t, NULL, 0);
    atomic_store(&l->head->sleeping, 0);
}

weft_status shm_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    uint64_t start = now_us(), until = start + timeout_us, spun = start + spin_us, now = start;
    bool found = anything(l);
    while (!found && now < spun) {
        for (int i = 0; i < 64 && !found; i++) {
            weft_pause();
            found = anything(l);
        }
        now = now_us();
        look(l, now);
    }
    while (!found && now < until) {
        sleep_once(l, until - now < LOOK_US ? until - now : LOOK_US);
        now = now_us();
        look(l, now);
        found = anything(l) || (setting_up(l) && atomic_load(&l->head->bell) != l->passed);
    }
    atomic_store(&l->woken, false);
    if (atomic_load(&l->aborted))
        return shm_fail(l->host, WEFT_PEER, "this rank has closed its shm connections");
    return WEFT_OK;
}

void shm_wake(weft_link *l)
{
    atomic_store(&l->woken, true);
    ring_bell(l->head);
}

void shm_abort(weft_link *l)
{
    atomic_store(&l->aborted, true);
    pthread_mutex_lock(&l->lock);
    tell_gone(l, GONE_ABORTED);
    pthread_mutex_unlock(&l->lock);
    shm_wake(l);
}
