/* tests/comm/loop_link.c: see loop_link.h. Everything happens under the one lock of the hub. */
#include "loop_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"

#define QUEUE 64

struct weft_region {
    char *base;
    uint64_t bytes;
};

struct weft_link {
    loop_hub *hub;
    uint32_t rank;
    pthread_cond_t cond;
    int event, aborted;
    struct weft_region region[2]; /* arena and trailers */
};

typedef struct message {
    char *at;
    uint64_t bytes, done;
    uint32_t hold; /* looks */
    char *copy;    /* buffered: `at` is this */
} message;

struct weft_conn {
    weft_link *link;
    uint32_t peer, channel;
    weft_conn *mate, *next;
    message send[QUEUE], recv[QUEUE];
    uint64_t sends, sent, recvs, received;
    uint64_t told_sent, told_received;
};

static uint64_t draw(loop_hub *h, uint64_t n)
{
    h->random = h->random * 6364136223846793005u + 1442695040888963407u;
    return (h->random >> 33) % n;
}

static void rouse(weft_link *l)
{
    l->event = 1;
    pthread_cond_signal(&l->cond);
}

static weft_status loop_create(void *module, const weft_link_args *args, weft_link **out)
{
    loop_hub *h = module;
    weft_link *l = calloc(1, sizeof *l);
    l->hub = h;
    l->rank = args->rank;
    pthread_cond_init(&l->cond, NULL);
    pthread_mutex_lock(&h->lock);
    h->link[args->rank] = l;
    pthread_mutex_unlock(&h->lock);
    *out = l;
    return WEFT_OK;
}

static void loop_destroy(weft_link *l)
{
    if (!l)
        return;
    loop_hub *h = l->hub;
    pthread_mutex_lock(&h->lock);
    h->link[l->rank] = NULL;
    pthread_mutex_unlock(&h->lock);
    free(l);
}

static weft_status loop_address(weft_link *l, void *out, uint64_t *bytes)
{
    memcpy(out, &l->rank, sizeof l->rank);
    *bytes = sizeof l->rank;
    return WEFT_OK;
}

static weft_status loop_connect(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    const uint32_t peer = args->peer, channel = args->channel;
    if (args->bytes != sizeof peer || memcmp(args->address, &peer, sizeof peer) != 0)
        return err_fail(WEFT_INTERNAL, "the address of rank %u is another's", peer);
    weft_conn *c = calloc(1, sizeof *c);
    c->link = l;
    c->peer = peer;
    c->channel = channel;
    pthread_mutex_lock(&l->hub->lock);
    for (weft_conn *o = l->hub->conns; o; o = o->next)
        if (o->link->rank == peer && o->peer == l->rank && o->channel == channel && !o->mate) {
            c->mate = o;
            o->mate = c;
        }
    c->next = l->hub->conns;
    l->hub->conns = c;
    pthread_mutex_unlock(&l->hub->lock);
    *out = c;
    return WEFT_OK;
}

static weft_status loop_ready(weft_conn *c)
{
    if (c->link->hub->down)
        return err_fail_in(WEFT_BUSY, ERR_PLUGIN, "loop", "no carrier");
    pthread_mutex_lock(&c->link->hub->lock);
    int up = c->mate != NULL;
    pthread_mutex_unlock(&c->link->hub->lock);
    return up ? WEFT_OK : WEFT_BUSY;
}

static void loop_disconnect(weft_conn *c)
{
    loop_hub *h = c->link->hub;
    pthread_mutex_lock(&h->lock);
    if (c->mate)
        c->mate->mate = NULL;
    weft_conn **at = &h->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&h->lock);
    for (uint32_t i = 0; i < QUEUE; i++)
        free(c->send[i].copy);
    free(c);
}

static weft_status state_of(const weft_conn *c)
{
    const loop_hub *h = c->link->hub;
    if (c->link->aborted)
        return err_fail(WEFT_PEER, "this rank has given up");
    if (!c->mate || c->mate->link->aborted)
        return err_fail(WEFT_PEER, "rank %u closed its connection", c->peer);
    int concerned = h->gone == (int64_t)c->link->rank || h->gone == (int64_t)c->peer;
    if (concerned && h->moved >= h->gone_after)
        return err_fail(WEFT_PEER, "the connection with rank %u broke", c->peer);
    return WEFT_OK;
}

static weft_status add(weft_conn *c, int sending, void *at, uint64_t bytes, weft_region *region)
{
    loop_hub *h = c->link->hub;
    pthread_mutex_lock(&h->lock);
    weft_status st = state_of(c);
    uint64_t *n = sending ? &c->sends : &c->recvs, done = sending ? c->sent : c->received;
    if (st == WEFT_OK && (h->table.caps & WEFT_LINK_REGISTER) && bytes &&
        (!region || (char *)at < region->base || (char *)at + bytes > region->base + region->bytes))
        st = err_fail(WEFT_INTERNAL, "memory outside the region");
    int refuse = h->busy && *n != done && draw(h, h->busy) == 0;
    if (st == WEFT_OK && (*n - done == QUEUE || refuse))
        st = WEFT_BUSY;
    if (st == WEFT_BUSY)
        c->link->event = 1;
    if (st == WEFT_OK) {
        message m = {.at = at, .bytes = bytes, .hold = h->hold ? (uint32_t)draw(h, h->hold) : 0};
        if (sending && bytes && bytes <= h->eager) {
            m.at = m.copy = malloc(bytes);
            memcpy(m.copy, at, bytes);
        }
        (sending ? c->send : c->recv)[(*n)++ % QUEUE] = m;
        rouse(c->mate->link);
        rouse(c->link);
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

static weft_status loop_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                             uint32_t flags)
{
    if (flags)
        return err_fail(WEFT_UNSUPPORTED, "flags");
    return add(c, 1, (void *)(uintptr_t)from, bytes, region);
}

static weft_status loop_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                             uint32_t flags)
{
    if (flags)
        return err_fail(WEFT_UNSUPPORTED, "flags");
    return add(c, 0, to, bytes, region);
}

/* A piece of the first send of `from`, if its receive stands. */
static weft_status move(loop_hub *h, weft_conn *from, weft_conn *to)
{
    if (from->sent == from->sends || to->received == to->recvs)
        return WEFT_OK;
    message *s = &from->send[from->sent % QUEUE], *r = &to->recv[to->received % QUEUE];
    if (s->hold) {
        s->hold--;
        rouse(from->link);
        return WEFT_OK;
    }
    if (s->bytes != r->bytes)
        return err_fail(WEFT_PEER, "rank %u sends %llu bytes, rank %u receives %llu",
                        from->link->rank, (unsigned long long)s->bytes, to->link->rank,
                        (unsigned long long)r->bytes);
    uint64_t left = s->bytes - s->done, n = h->piece ? 1 + draw(h, h->piece) : left;
    n = n < left ? n : left;
    if (n)
        memcpy(r->at + s->done, s->at + s->done, n);
    if (h->moved < h->flip_at && h->flip_at <= h->moved + n)
        r->at[s->done + h->flip_at - h->moved - 1] ^= (char)h->flip;
    if (h->lie && s->bytes == 16)
        memset(r->at, 0xff, 16);
    s->done += n;
    h->moved += n;
    if (s->done == s->bytes) {
        free(s->copy);
        s->copy = NULL;
        from->sent++;
        to->received++;
    }
    rouse(from->link);
    rouse(to->link);
    return WEFT_OK;
}

/* Does nothing move at this look? */
static int withheld(loop_hub *h, const weft_conn *c)
{
    if (h->paused) {
        h->paused--;
        return 1;
    }
    if (h->pauses && draw(h, 1000) == 0)
        h->paused = (uint32_t)draw(h, h->pauses);
    if (h->starves && c->link->rank == h->starved && draw(h, h->starves))
        return 1;
    return draw(h, 3) == 0;
}

/* What has finished, as far as this look tells. */
static void tell(loop_hub *h, weft_conn *c)
{
    uint64_t sent = c->sent;
    while (sent < c->sends && c->send[sent % QUEUE].copy)
        sent++;
    if (h->lag && draw(h, h->lag)) {
        c->link->event |= c->told_sent != sent || c->told_received != c->received;
        return;
    }
    c->told_sent = sent;
    c->told_received = c->received;
}

static weft_status loop_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    loop_hub *h = c->link->hub;
    (void)flags;
    pthread_mutex_lock(&h->lock);
    weft_status st = state_of(c);
    if (st == WEFT_OK && !withheld(h, c)) {
        st = move(h, c, c->mate);
        if (st == WEFT_OK)
            st = move(h, c->mate, c);
    } else {
        c->link->event = 1; /* nothing now, but not because there is nothing */
    }
    tell(h, c);
    *sent = c->told_sent;
    *received = c->told_received;
    pthread_mutex_unlock(&h->lock);
    return st;
}

static weft_status loop_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    struct timespec until;
    (void)spin_us, (void)flags;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + timeout_us * 1000ull;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_mutex_lock(&l->hub->lock);
    int late = 0;
    while (!l->event && !late)
        late = pthread_cond_timedwait(&l->cond, &l->hub->lock, &until) == ETIMEDOUT;
    l->event = 0;
    pthread_mutex_unlock(&l->hub->lock);
    return WEFT_OK;
}

static void loop_wake(weft_link *l)
{
    pthread_mutex_lock(&l->hub->lock);
    rouse(l);
    pthread_mutex_unlock(&l->hub->lock);
}

static void loop_abort(weft_link *l)
{
    pthread_mutex_lock(&l->hub->lock);
    l->aborted = 1;
    for (uint32_t i = 0; i < LOOP_MAX_RANKS; i++)
        if (l->hub->link[i])
            rouse(l->hub->link[i]);
    pthread_mutex_unlock(&l->hub->lock);
}

static weft_status loop_register(weft_link *l, const weft_memory *m, weft_region **out)
{
    struct weft_region *r = &l->region[l->region[0].base != NULL];
    *r = (struct weft_region){m->base, m->bytes};
    *out = r;
    return WEFT_OK;
}

static void loop_deregister(weft_region *r)
{
    (void)r;
}

static weft_status loop_key(weft_region *r, void *out, uint64_t *bytes)
{
    memcpy(out, &r->base, sizeof r->base);
    *bytes = sizeof r->base;
    return WEFT_OK;
}

static weft_status loop_map(weft_link *l, uint32_t peer, const void *key, uint64_t bytes,
                            uint32_t flags, void **base)
{
    (void)l, (void)peer, (void)flags;
    if (bytes != sizeof *base)
        return err_fail(WEFT_DATA, "a key of %llu bytes", (unsigned long long)bytes);
    memcpy(base, key, sizeof *base);
    return WEFT_OK;
}

void loop_begin(loop_hub *h, uint64_t caps, uint32_t channels)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    h->gone = -1;
    h->table = (weft_link_table){
        .struct_size = sizeof h->table,
        .channels = channels,
        .caps = caps,
        .create = loop_create,
        .destroy = loop_destroy,
        .address = loop_address,
        .connect = loop_connect,
        .ready = loop_ready,
        .disconnect = loop_disconnect,
        .send = loop_send,
        .recv = loop_recv,
        .progress = loop_progress,
        .wait = loop_wait,
        .wake = loop_wake,
        .abort = loop_abort,
        .register_memory = loop_register,
        .deregister_memory = loop_deregister,
        .key = loop_key,
        .map = loop_map,
    };
    h->component = (host_component){
        .kind = "comm", .iface = "weft.link/1", .name = "loop", .table = &h->table, .module = h};
}

void loop_mischief(loop_hub *h, uint64_t seed)
{
    static const uint32_t some[] = {0, 2, 5, 40};
    h->random = seed * 0x9e3779b97f4a7c15u + 1;
    h->piece = (uint64_t)1 << draw(h, 14);
    h->hold = some[draw(h, 4)];
    h->busy = some[draw(h, 3)];
    h->lag = some[draw(h, 4)];
    h->pauses = some[draw(h, 4)] * 10;
    h->starves = some[draw(h, 4)];
    h->starved = (uint32_t)draw(h, LOOP_MAX_RANKS);
    h->eager = draw(h, 2) ? (uint64_t)1 << draw(h, 13) : 0;
}

void loop_end(loop_hub *h)
{
    pthread_mutex_destroy(&h->lock);
}
