/* move.c: messages through the rings.
 *
 * The sender fills the next cell of the peer's ring and writes its stamp last (release); the
 * receiver polls the stamp (acquire) and consumes the cell. Short messages are inline in the cell.
 * A longer one is split into chunks of the data part, each announced by a cell, so that sender and
 * receiver copy at the same time. Every cache line has a single writer: the receiver writes only
 * the line with the consumed counts, which the sender reads when the ring looks full.
 *
 * Messages of one chunk that are consumed promptly stay in the first part of the data buffer, to
 * reuse warm cache lines and TLB entries: after every WARM bytes the sender skips the rest of the
 * data part and starts again at its beginning. */
#include "shm.h"

#include <string.h>

static uint64_t lines(uint64_t bytes)
{
    return (bytes + 63) & ~(uint64_t)63;
}

/* Is there a free cell, and `bytes` free in the data part? Reads the peer's counts only when
 * needed. */
static bool room(weft_conn *c, uint64_t bytes)
{
    ring *r = c->out_ring;
    if (c->cells_out - c->cells_taken <= c->out_mask &&
        c->bytes_out - c->bytes_taken + bytes <= c->out_bytes)
        return true;
    c->cells_taken = atomic_load_explicit(&r->cells_read, memory_order_acquire);
    c->bytes_taken = atomic_load_explicit(&r->bytes_read, memory_order_acquire);
    return c->cells_out - c->cells_taken <= c->out_mask &&
           c->bytes_out - c->bytes_taken + bytes <= c->out_bytes;
}

/* Restart at the beginning of the data part if little is unread and a one-chunk message fits
 * there. */
static void turn_back(weft_conn *c, const message *m)
{
    uint64_t at = c->bytes_out & (c->out_bytes - 1);
    if (c->bytes_out < c->look_at || m->bytes > CHUNK)
        return;
    c->look_at = c->bytes_out + WARM;
    c->bytes_taken = atomic_load_explicit(&c->out_ring->bytes_read, memory_order_acquire);
    uint64_t unread = c->bytes_out - c->bytes_taken;
    if (at < WARM || unread > WARM / 2)
        return;
    c->bytes_out += c->out_bytes - at;
    c->look_at = c->bytes_out + WARM;
}

static void publish(weft_conn *c, cell *to, uint64_t code)
{
    c->cells_out++;
    atomic_store_explicit(&to->stamp, code << 48 | (c->cells_out & CELL_NUMBER),
                          memory_order_release);
}

/* Bytes of the first unfinished message that the next cell carries. */
static uint64_t next_part(const weft_conn *c)
{
    uint64_t left = c->out.m[c->out.done % QUEUE].bytes - c->out.at;
    uint64_t straight = c->out_bytes - (c->bytes_out & (c->out_bytes - 1));
    uint64_t part = left < CHUNK ? left : CHUNK;
    return part < straight ? part : straight;
}

/* Write the next cell of the first unfinished message. Returns its bytes, or -1 if the ring is
 * full. */
static int64_t put(weft_conn *c)
{
    message *m = &c->out.m[c->out.done % QUEUE];
    cell *to = &c->out_ring->cells[c->cells_out & c->out_mask];
    if (m->bytes <= INLINE) {
        if (!room(c, 0))
            return -1;
        if (m->bytes > 0)
            memcpy(to->body, m->at, m->bytes);
        publish(c, to, m->bytes);
        c->out.done++;
        return (int64_t)m->bytes;
    }
    turn_back(c, m);
    chunk k = {m->bytes, next_part(c), c->bytes_out};
    if (!room(c, lines(k.part)))
        return -1;
    memcpy(c->out_data + (c->bytes_out & (c->out_bytes - 1)), m->at + c->out.at, k.part);
    to->chunk = k;
    publish(c, to, CELL_CHUNK);
    c->bytes_out += lines(k.part);
    c->out.at += k.part;
    if (c->out.at == m->bytes) {
        c->out.at = 0;
        c->out.done++;
    }
    return (int64_t)k.part;
}

static bool push(weft_conn *c)
{
    int64_t budget = TURN, n = 0;
    uint64_t before = c->cells_out;
    while (n >= 0 && budget > 0 && c->out.done < c->out.posted) {
        n = put(c);
        budget -= n + 64;
    }
    if (c->cells_out == before)
        return false;
    shm_notify(c->peer);
    return true;
}

static weft_status unequal(weft_conn *c, uint64_t sent)
{
    return shm_break(
        c, WEFT_PEER, "message %llu of channel %u: rank %u sent %llu bytes, this rank expects %llu",
        (unsigned long long)c->in.done, c->channel, c->peer->rank, (unsigned long long)sent,
        (unsigned long long)c->in.m[c->in.done % QUEUE].bytes);
}

static cell *filled(weft_conn *c, uint64_t *stamp)
{
    cell *from = &c->in_ring->cells[c->cells_in & c->in_mask];
    *stamp = atomic_load_explicit(&from->stamp, memory_order_acquire);
    return (*stamp & CELL_NUMBER) == ((c->cells_in + 1) & CELL_NUMBER) ? from : NULL;
}

/* Prefetch the further lines of the next cell, or its data, while polling the stamp, so that the
 * lines arrive in parallel instead of one after the other. Prefetch no more than the awaited
 * message has: a line that the writer has yet to write would be taken from its cache. */
static void foresee(const weft_conn *c)
{
    const ring *r = c->in_ring;
    const uint64_t bytes = c->in.m[c->in.done % QUEUE].bytes;
    const char *waiting = (const char *)&r->cells[c->cells_in & c->in_mask];
    if (bytes > INLINE)
        __builtin_prefetch(c->in_data + (c->bytes_in & (c->in_bytes - 1)));
    for (uint64_t at = 64; bytes <= INLINE && at < bytes + sizeof(uint64_t); at += 64)
        __builtin_prefetch(waiting + at);
}

static weft_status take_chunk(weft_conn *c, message *m, const cell *from, uint64_t *moved)
{
    const volatile chunk *theirs =
        &from->chunk; /* read once: the peer may change it concurrently */
    chunk k = {theirs->total, theirs->part, theirs->at};
    uint64_t at = k.at & (c->in_bytes - 1), left = m->bytes - c->in.at;
    if (k.total != m->bytes)
        return unequal(c, k.total);
    if (k.part == 0 || k.part > left || k.part > c->in_bytes - at || k.at < c->bytes_in)
        return shm_break(c, WEFT_DATA, "rank %u wrote an invalid chunk into channel %u",
                         c->peer->rank, c->channel);
    memcpy(m->at + c->in.at, c->in_data + at, k.part);
    c->bytes_in = k.at + lines(k.part);
    c->in.at += k.part;
    if (c->in.at == m->bytes) {
        c->in.at = 0;
        c->in.done++;
    }
    *moved = k.part;
    return WEFT_OK;
}

static weft_status take_inline(weft_conn *c, message *m, const cell *from, uint64_t bytes)
{
    if (bytes != m->bytes || c->in.at != 0)
        return unequal(c, bytes);
    if (bytes > 0)
        memcpy(m->at, from->body, bytes);
    c->in.done++;
    return WEFT_OK;
}

static void tell_taken(weft_conn *c)
{
    c->told = c->cells_in;
    atomic_store_explicit(&c->in_ring->bytes_read, c->bytes_in, memory_order_release);
    atomic_store_explicit(&c->in_ring->cells_read, c->cells_in, memory_order_release);
    shm_notify(c->peer);
}

/* Consumed cells that may accumulate before the count is published: a small fraction of the
 * ring. */
static uint64_t lazy(const weft_conn *c)
{
    return c->in_mask / 8 + 1;
}

static weft_status pull(weft_conn *c, bool *moved)
{
    uint64_t stamp, before = c->bytes_in, cells = c->cells_in;
    int64_t budget = TURN;
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && budget > 0 && c->in.done < c->in.posted) {
        const cell *from = filled(c, &stamp);
        if (!from) {
            foresee(c);
            break;
        }
        message *m = &c->in.m[c->in.done % QUEUE];
        uint64_t bytes = stamp >> 48;
        if (bytes == CELL_CHUNK)
            st = take_chunk(c, m, from, &bytes);
        else
            st = take_inline(c, m, from, bytes);
        c->cells_in++;
        budget -= (int64_t)bytes + 64;
    }
    *moved |= c->cells_in != cells;
    if (c->bytes_in != before || c->cells_in - c->told >= lazy(c))
        tell_taken(c);
    return st;
}

static weft_status post(weft_conn *c, queue *q, void *at, uint64_t bytes)
{
    weft_status st = shm_usable(c);
    if (st != WEFT_OK)
        return st;
    if (q->posted - q->done == QUEUE)
        return WEFT_BUSY;
    q->m[q->posted++ % QUEUE] = (message){at, bytes};
    return WEFT_OK;
}

weft_status shm_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region)
{
    (void)region;
    weft_status st = post(c, &c->out, (void *)(uintptr_t)from, bytes);
    if (st == WEFT_OK && c->up && bytes <= CHUNK && c->out.posted - c->out.done == 1)
        push(c); /* short messages are sent at once */
    return st;
}

weft_status shm_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region)
{
    (void)region;
    return post(c, &c->in, to, bytes);
}

/* Called when operations are posted but nothing moved: has the peer left? Data that it sent before
 * is still in the ring, so check once more after seeing that it is gone. */
static weft_status check_peer(weft_conn *c)
{
    bool waits_in = c->in.done < c->in.posted, waits_out = c->out.done < c->out.posted;
    unsigned gone = atomic_load_explicit(&c->peer->head->gone, memory_order_acquire);
    uint64_t stamp;
    if (gone == GONE_ABORTED)
        return shm_break(c, WEFT_PEER, "rank %u has aborted the job", c->peer->rank);
    bool no_writer = c->peer->dead || gone != GONE_NOT || atomic_load(&c->in_ring->writer_closed);
    bool no_reader = c->peer->dead || gone != GONE_NOT || atomic_load(&c->out_ring->reader_closed);
    if (waits_in && no_writer && !filled(c, &stamp))
        return shm_break(c, WEFT_PEER, "rank %u %s while message %llu of channel %u was awaited",
                         c->peer->rank, c->peer->dead ? "died" : "left",
                         (unsigned long long)c->in.done, c->channel);
    if (waits_out && no_reader)
        return shm_break(c, WEFT_PEER, "rank %u %s while message %llu of channel %u was sent",
                         c->peer->rank, c->peer->dead ? "died" : "left",
                         (unsigned long long)c->out.done, c->channel);
    return WEFT_OK;
}

weft_status shm_progress(weft_conn *c, uint64_t *sent, uint64_t *received)
{
    bool moved = false;
    weft_status st = shm_usable(c);
    if (st == WEFT_OK && c->up) {
        if (c->out.done < c->out.posted)
            moved = push(c);
        if (c->in.done < c->in.posted)
            st = pull(c, &moved);
        if (st == WEFT_OK && !moved) {
            st = check_peer(c);
            if (++c->link->idle > 16384)
                shm_look(c->link);
        }
    }
    if (st != WEFT_OK)
        return st;
    *sent = c->out.done;
    *received = c->in.done;
    return WEFT_OK;
}

bool shm_can_move(weft_conn *c)
{
    uint64_t stamp;
    if (!c->up)
        return false;
    bool waits_in = c->in.done < c->in.posted, waits_out = c->out.done < c->out.posted;
    if (waits_in && filled(c, &stamp))
        return true;
    if (waits_out &&
        room(c, c->out.m[c->out.done % QUEUE].bytes <= INLINE ? 0 : lines(next_part(c))))
        return true;
    return (waits_in || waits_out) &&
           (c->peer->dead || atomic_load_explicit(&c->peer->head->gone, memory_order_relaxed) ||
            atomic_load_explicit(&c->in_ring->writer_closed, memory_order_relaxed) ||
            atomic_load_explicit(&c->out_ring->reader_closed, memory_order_relaxed));
}
