/* comm/bridge.c: two transports as one link, so that a channel may reach some ranks over shared
 * memory and others over a network, transparently to the algorithm.
 *
 * Each connection belongs to one of the parts, and every call goes there. Addresses and regions
 * combine those of both. Only sleeping is shared: a thread can sleep in one link at a time. It
 * sleeps in the one with posted work; if both have some, in each in turn for a short time.
 *
 * Cost: one more indirect call per call, and at most SLICE_US more latency for events in the part
 * in which no thread sleeps.
 *
 * Here weft_link, weft_conn and weft_region are the bridge's; those of its parts are opaque. */
#include "comm/bridge.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "host/call.h"

#define INTRA 0
#define INTER 1
#define SLICE_US 200u

typedef struct part {
    const weft_link_table *table;
    const char *name;
    void *link;         /* the part's weft_link */
    uint64_t in_flight; /* sends and receives posted and not finished */
    uint32_t waiting;   /* connections not up yet */
} part;

struct weft_link {
    weft_link_table table;
    part part[2];
    const uint32_t *machine;
    uint32_t me, ranks;
};

struct weft_conn {
    weft_link *bridge;
    part *part;
    void *conn;
    int which, up;
    uint64_t sent, received;
};

struct weft_region {
    weft_link *bridge;
    void *region[2]; /* NULL: not needed by the part */
};

/* Header before the bytes of both parts in an address. */
typedef struct pair_head {
    uint32_t intra, inter;
} pair_head;

static void bridge_destroy(weft_link *l)
{
    for (int i = 0; l && i < 2; i++)
        if (l->part[i].link)
            PLUGIN_DO(l->part[i].table, destroy, l->part[i].link);
    free(l);
}

/* Both parts' bytes after a header. */
static weft_status bridge_address(weft_link *l, void *out, uint64_t *bytes)
{
    pair_head head = {0};
    uint64_t at = sizeof head;
    for (int i = 0; i < 2; i++) {
        const part *p = &l->part[i];
        uint64_t n = *bytes > at ? *bytes - at : 0;
        weft_status st = PLUGIN_CALL(p->table, address, p->link, (char *)out + at, &n);
        if (st != WEFT_OK)
            return st;
        *(i == INTRA ? &head.intra : &head.inter) = (uint32_t)n;
        at += n;
    }
    memcpy(out, &head, sizeof head);
    *bytes = at;
    return WEFT_OK;
}

/* The bytes of part `which`; NULL: not written by bridge_address(). */
static const void *read_pair(const void *bytes, uint64_t n, int which, uint64_t *part_bytes)
{
    pair_head head;
    if (n < sizeof head)
        return NULL;
    memcpy(&head, bytes, sizeof head);
    if (sizeof head + (uint64_t)head.intra + head.inter != n)
        return NULL;
    *part_bytes = which == INTRA ? head.intra : head.inter;
    return (const char *)bytes + sizeof head + (which == INTRA ? 0 : head.intra);
}

static int which_for(const weft_link *l, uint32_t peer)
{
    return l->machine[peer] == l->machine[l->me] ? INTRA : INTER;
}

static weft_status bridge_connect(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    const uint32_t peer = args->peer;
    uint64_t n = 0;
    if (peer >= l->ranks)
        return err_fail(WEFT_USAGE, "rank %u is not in the job", peer);
    int which = which_for(l, peer);
    const void *at = read_pair(args->address, args->bytes, which, &n);
    if (!at)
        return err_fail(WEFT_DATA,
                        "the address of rank %u is not one of %s and %s: all ranks must run the "
                        "same configuration",
                        peer, l->part[INTRA].name, l->part[INTER].name);
    weft_conn *c = mem_alloc(sizeof *c);
    *c = (weft_conn){.bridge = l, .part = &l->part[which], .which = which};
    weft_conn *inner = NULL;
    weft_conn_args own = *args;
    own.address = at;
    own.bytes = n;
    weft_status st = PLUGIN_CALL(c->part->table, connect, c->part->link, &own, &inner);
    if (st != WEFT_OK) {
        free(c);
        return st;
    }
    c->conn = inner;
    c->part->waiting++;
    *out = c;
    return WEFT_OK;
}

static weft_status bridge_ready(weft_conn *c)
{
    weft_status st = PLUGIN_POLL(c->part->table, ready, c->conn);
    if (st == WEFT_OK && !c->up) {
        c->up = 1;
        c->part->waiting--;
    }
    return st;
}

static void bridge_disconnect(weft_conn *c)
{
    if (!c)
        return;
    c->part->waiting -= !c->up;
    PLUGIN_DO(c->part->table, disconnect, c->conn);
    free(c);
}

static weft_region *region_of(const weft_conn *c, const weft_region *r)
{
    return r ? r->region[c->which] : NULL;
}

static weft_status bridge_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *r,
                               uint32_t flags)
{
    weft_status st =
        PLUGIN_POLL(c->part->table, send, c->conn, from, bytes, region_of(c, r), flags);
    c->part->in_flight += st == WEFT_OK;
    return st;
}

static weft_status bridge_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *r,
                               uint32_t flags)
{
    weft_status st = PLUGIN_POLL(c->part->table, recv, c->conn, to, bytes, region_of(c, r), flags);
    c->part->in_flight += st == WEFT_OK;
    return st;
}

static weft_status bridge_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    weft_status st = PLUGIN_CALL(c->part->table, progress, c->conn, flags, sent, received);
    if (st == WEFT_OK) {
        c->part->in_flight -= (*sent - c->sent) + (*received - c->received);
        c->sent = *sent;
        c->received = *received;
    }
    return st;
}

static int is_busy(const part *p)
{
    return p->in_flight || p->waiting;
}

static weft_status bridge_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    int intra = is_busy(&l->part[INTRA]), inter = is_busy(&l->part[INTER]);
    uint32_t max = intra != inter || timeout_us < SLICE_US ? timeout_us : SLICE_US;
    weft_status st = WEFT_OK;
    for (int i = 0; i < 2 && (st == WEFT_OK || st == WEFT_BUSY); i++)
        if (intra == inter || is_busy(&l->part[i]))
            st = PLUGIN_CALL(l->part[i].table, wait, l->part[i].link, spin_us, max, flags);
    return st;
}

static void bridge_wake(weft_link *l)
{
    for (int i = 0; i < 2; i++)
        PLUGIN_DO(l->part[i].table, wake, l->part[i].link);
}

static void bridge_abort(weft_link *l)
{
    for (int i = 0; i < 2; i++)
        PLUGIN_DO(l->part[i].table, abort, l->part[i].link);
}

static void bridge_deregister(weft_region *r)
{
    for (int i = 0; r && i < 2; i++)
        if (r->region[i])
            PLUGIN_DO(r->bridge->part[i].table, deregister_memory, r->region[i]);
    free(r);
}

static int registers(const part *p)
{
    return (p->table->caps & WEFT_LINK_REGISTER) && p->table->register_memory;
}

static weft_status bridge_register(weft_link *l, const weft_memory *memory, weft_region **out)
{
    weft_region *r = mem_alloc(sizeof *r);
    r->bridge = l;
    weft_status st = WEFT_OK;
    for (int i = 0; i < 2 && st == WEFT_OK; i++) {
        weft_region *inner = NULL;
        if (registers(&l->part[i]))
            st = PLUGIN_CALL(l->part[i].table, register_memory, l->part[i].link, memory, &inner);
        r->region[i] = inner;
    }
    if (st != WEFT_OK) {
        bridge_deregister(r);
        return st;
    }
    *out = r;
    return WEFT_OK;
}

static const weft_link_table functions = {.struct_size = sizeof functions,
                                          .destroy = bridge_destroy,
                                          .address = bridge_address,
                                          .connect = bridge_connect,
                                          .ready = bridge_ready,
                                          .disconnect = bridge_disconnect,
                                          .send = bridge_send,
                                          .recv = bridge_recv,
                                          .progress = bridge_progress,
                                          .wait = bridge_wait,
                                          .wake = bridge_wake,
                                          .abort = bridge_abort,
                                          .register_memory = bridge_register,
                                          .deregister_memory = bridge_deregister};

weft_status comm_bridge_create(const host_component *intra, const weft_conf *intra_conf,
                               const host_component *inter, const weft_link_args *args,
                               const uint32_t *machine, const weft_link_table **table,
                               weft_link **out)
{
    const host_component *of[2] = {intra, inter};
    weft_link_args own[2] = {*args, *args};
    own[INTRA].conf = intra_conf;
    weft_link *l = mem_alloc(sizeof *l);
    l->table = functions;
    l->machine = machine;
    l->me = args->rank;
    l->ranks = args->ranks;
    weft_status st = WEFT_OK;
    for (int i = 0; i < 2 && st == WEFT_OK; i++) {
        weft_link *inner = NULL;
        l->part[i].table = of[i]->table;
        l->part[i].name = of[i]->name;
        st = PLUGIN_CALL(l->part[i].table, create, of[i]->module, &own[i], &inner);
        l->part[i].link = inner;
        uint32_t max = l->part[i].table->channels;
        if (max && (!l->table.channels || max < l->table.channels))
            l->table.channels = max;
    }
    l->table.caps = sched_pair_caps(l->part[INTRA].table->caps, l->part[INTER].table->caps);
    if (st != WEFT_OK) {
        bridge_destroy(l);
        return st;
    }
    *table = &l->table;
    *out = l;
    return WEFT_OK;
}
