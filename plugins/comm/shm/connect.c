/* connect.c: connections, from connect to disconnect. Each end allocates a ring in its own segment,
 * adds it to its directory, and maps the ring that the other end added for it. A connection is
 * ready when both rings are mapped. */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

weft_status shm_break(weft_conn *c, weft_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, args);
    va_end(args);
    c->broken = code;
    return c->link->host->fail(c->link->host->ctx, code, c->why);
}

weft_status shm_usable(weft_conn *c)
{
    weft_link *l = c->link;
    if (atomic_load_explicit(&l->aborted, memory_order_relaxed))
        return shm_fail(l->host, WEFT_PEER, "this rank has closed its shm connections");
    if (c->broken != WEFT_OK)
        return l->host->fail(l->host->ctx, c->broken, c->why);
    return WEFT_OK;
}

/* Allocate the own ring and publish it to the peer. */
static weft_status offer(weft_link *l, weft_conn *c)
{
    unsigned n = atomic_load(&l->head->entries);
    uint64_t offset = 0;
    if (n == ENTRIES)
        return shm_fail(l->host, WEFT_UNSUPPORTED, "shm makes at most %d connections a rank",
                        ENTRIES);
    c->in_bytes = l->ring_bytes;
    weft_status st = shm_grow(l, shm_ring_size(l->cells, c->in_bytes), &offset);
    if (st != WEFT_OK)
        return st;
    c->in_ring = shm_map_ring(l->fd, offset, l->cells, c->in_bytes);
    if (!c->in_ring)
        return shm_fail(l->host, WEFT_NO_MEMORY, "shm cannot map a ring: %s", strerror(errno));
    c->in_data = shm_data(c->in_ring, l->cells);
    c->in_mask = l->cells - 1;
    c->entry = &l->head->directory[n];
    c->entry->peer = c->peer->rank;
    c->entry->channel = c->channel;
    c->entry->data_bytes = l->ring_bytes;
    c->entry->offset = offset;
    c->entry->cells = l->cells;
    atomic_store(&c->entry->state, ENTRY_OPEN);
    atomic_store(&l->head->entries, n + 1);
    shm_tell(c->peer);
    l->begun = true;
    return WEFT_OK;
}

weft_status shm_connect(weft_link *l, uint32_t rank, uint32_t channel, const void *where,
                        uint64_t bytes, weft_conn **out)
{
    address a;
    if (rank == l->rank || rank >= l->ranks)
        return shm_fail(l->host, WEFT_USAGE, "shm was to connect rank %u with rank %u of %u",
                        l->rank, rank, l->ranks);
    memset(&a, 0, sizeof a);
    if (where && bytes == sizeof a)
        memcpy(&a, where, sizeof a);
    peer *p = NULL;
    weft_status st = shm_open_peer(l, rank, &a, &p);
    if (st != WEFT_OK)
        return st;
    weft_conn *c = l->host->alloc(l->host->ctx, sizeof *c, 64);
    if (!c)
        return shm_fail(l->host, WEFT_NO_MEMORY, "no memory for a connection");
    c->link = l;
    c->peer = p;
    c->channel = channel;
    c->next = l->conns;
    l->conns = c;
    st = offer(l, c);
    if (st != WEFT_OK) {
        shm_disconnect(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

/* Map the ring of a directory entry that the peer wrote. The entry is validated as untrusted
 * input. */
static weft_status take(weft_conn *c, entry *e)
{
    struct stat s;
    const volatile entry *theirs = e; /* read once: the peer may change it concurrently */
    uint64_t offset = theirs->offset, data = theirs->data_bytes;
    uint32_t cells = theirs->cells;
    bool valid = data >= RING_MIN && data <= RING_MAX && (data & (data - 1)) == 0 &&
                 cells >= CELLS_MIN && cells <= CELLS_MAX && (cells & (cells - 1)) == 0 &&
                 offset % 4096 == 0 && fstat(c->peer->fd, &s) == 0 && s.st_size > 0 &&
                 offset <= (uint64_t)s.st_size &&
                 shm_ring_size(cells, data) <= (uint64_t)s.st_size - offset;
    if (!valid)
        return shm_break(c, WEFT_DATA, "rank %u offers a ring outside its own memory",
                         c->peer->rank);
    c->out_ring = shm_map_ring(c->peer->fd, offset, cells, data);
    if (!c->out_ring)
        return shm_break(c, WEFT_NO_MEMORY, "shm cannot map a ring of rank %u: %s", c->peer->rank,
                         strerror(errno));
    c->out_data = shm_data(c->out_ring, cells);
    c->out_mask = cells - 1;
    c->out_bytes = data;
    return WEFT_OK;
}

static weft_status find(weft_conn *c)
{
    segment *s = c->peer->head;
    unsigned n = atomic_load(&s->entries);
    for (; c->searched < n && c->searched < ENTRIES; c->searched++) {
        entry *e = &s->directory[c->searched];
        unsigned open = ENTRY_OPEN;
        if (e->peer == c->link->rank && e->channel == c->channel &&
            atomic_compare_exchange_strong(&e->state, &open, ENTRY_TAKEN)) {
            weft_status st = take(c, e);
            shm_tell(c->peer);
            return st;
        }
    }
    return WEFT_BUSY;
}

/* Advance the set-up of one connection as far as possible. */
static weft_status set_up(weft_conn *c)
{
    weft_status st = !c->out_ring ? find(c) : WEFT_OK;
    if (st != WEFT_OK && st != WEFT_BUSY)
        return st;
    if (st == WEFT_OK && atomic_load(&c->entry->state) == ENTRY_TAKEN) {
        c->up = true;
        return WEFT_OK;
    }
    if (c->peer->dead || atomic_load(&c->peer->head->gone) != GONE_NOT)
        return shm_break(c, WEFT_PEER, "rank %u ended before channel %u was set up", c->peer->rank,
                         c->channel);
    return WEFT_BUSY;
}

/* When a peer has rung, all connections in set-up are advanced, not just `c`: ranks that connect in
 * different orders would otherwise deadlock. */
weft_status shm_ready(weft_conn *c)
{
    weft_status st = shm_usable(c);
    if (st != WEFT_OK || c->up)
        return st;
    shm_look(c->link);
    bool news = shm_news(c->link);
    for (weft_conn *other = news ? c->link->conns : NULL; other; other = other->next)
        if (other != c && !other->up && other->broken == WEFT_OK)
            (void)!set_up(other);
    return set_up(c);
}

void shm_disconnect(weft_conn *c)
{
    if (!c)
        return;
    weft_link *l = c->link;
    weft_conn **at = &l->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (c->out_ring) {
        atomic_store(&c->out_ring->writer_closed, 1);
        munmap(c->out_ring, shm_ring_size(c->out_mask + 1, c->out_bytes));
    }
    if (c->in_ring) {
        atomic_store(&c->in_ring->reader_closed, 1);
        munmap(c->in_ring, shm_ring_size(c->in_mask + 1, c->in_bytes));
    }
    if (c->entry) {
        atomic_store(&c->entry->state, ENTRY_CLOSED);
        /* Free the pages, except the first: the peer may still read its flags. */
        (void)!fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         (off_t)c->entry->offset + 4096,
                         (off_t)shm_ring_size(c->in_mask + 1, c->in_bytes) - 4096);
    }
    shm_notify(c->peer);
    l->host->free(l->host->ctx, c);
}
