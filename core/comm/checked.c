/* comm/checked.c: checksums of messages.
 *
 * On a link with checksums a step of the schedule with bytes is a row of messages of the link: its
 * bytes in chunks, and a trailer with the CRC32C of all of them and of the step's number on this
 * connection, so that a message that took the place of another one is noticed too. Both ends know
 * every length, so the link needs to know nothing of it. A step without bytes has no trailer.
 *
 * A few chunks fit the cache of a core. The sender reads one just before the link copies it, and
 * posts the next one while the link is busy with it; the receiver reads it right after the link has
 * written it. A sender has no more than AHEAD bytes posted, or the link would find the first ones
 * out of the cache. A receiver posts all: with less a link waits for it
 * (bench/results/checksum.md). The trailer follows the last chunk at once, so a link that batches
 * what is posted sends a short message and its trailer together. A receive step is complete when
 * its trailer has been compared: nothing in the schedule reads bytes before that. */
#include <unistd.h>

#include "base/err.h"
#include "base/number/crc32c.h"
#include "comm/engine.h"
#include "comm/place.h"

#define CHUNK ((uint64_t)1 << 17)
#define AHEAD (8 * CHUNK) /* bytes that a sender reads before the link has moved them */
#define TRAILERS 64u      /* of a connection in each direction, in flight; a power of two */
#define TRAILER sizeof(uint32_t)
#define PAGE 4096u

/* Links register whole pages best, so all trailers are in one block of them. */
static uint32_t *take_block(comm_link *l, uint64_t rings, uint64_t *bytes)
{
    *bytes = (rings * TRAILERS * TRAILER + PAGE - 1) / PAGE * PAGE;
    char *block = pool_alloc(&l->world->pool, *bytes + PAGE);
    return (uint32_t *)(void *)(block + (PAGE - (uintptr_t)block % PAGE) % PAGE);
}

static uint64_t count_lanes(const comm_link *l)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < l->channels.n; i++)
        n += l->channels.at[i]->n;
    return n;
}

weft_status comm_checked_prepare(comm_link *l)
{
    comm_world *w = l->world;
    uint64_t lanes = count_lanes(l), bytes;
    if (!lanes)
        return WEFT_OK;
    uint32_t *ring = take_block(l, 2 * lanes, &bytes);
    comm_checked *k = pool_array(&w->pool, 2 * lanes, sizeof *k);
    for (uint64_t i = 0; i < 2 * lanes; i++)
        k[i].trailer = ring + i * TRAILERS;
    for (uint32_t i = 0; i < l->channels.n; i++)
        for (uint32_t p = 0; p < l->channels.at[i]->n; p++)
            for (int sending = 0; sending < 2; sending++)
                l->channels.at[i]->wire[p].flow[sending].checked = k++;
    l->host = pool_array(&w->pool, w->who.ranks, sizeof *l->host);
    (void)!gethostname(l->host[w->who.rank], COMM_HOST - 1);
    if (!(l->table->caps & WEFT_LINK_REGISTER))
        return WEFT_OK;
    const weft_memory m = {sizeof m, 0, ring, bytes, -1, 0};
    return PLUGIN_CALL(l->table, register_memory, l->link, &m, &l->trailers);
}

void comm_checked_free(comm_link *l)
{
    if (l->trailers)
        PLUGIN_DO(l->table, deregister_memory, l->trailers);
    l->trailers = NULL;
}

static weft_status post_trailer(comm_op *op, uint32_t peer, int sending, comm_checked *k)
{
    if (k->trailers_posted - k->trailers_done == TRAILERS)
        return WEFT_BUSY;
    uint32_t *at = &k->trailer[k->trailers_posted % TRAILERS];
    *at = sending ? k->crc : ~k->crc;
    weft_status st = comm_post(op, peer, sending, at, TRAILER, op->channel->link->trailers);
    if (st == WEFT_OK)
        k->trailers_posted++;
    return st;
}

weft_status comm_checked_post(comm_op *op, uint32_t peer, const sched_step *s, int sending,
                              bool *whole)
{
    comm_checked *k = op->channel->wire[peer].flow[sending].checked;
    uint64_t left = s->bytes - k->post_at, n = left < CHUNK ? left : CHUNK;
    const bool trailer = s->bytes && !left;
    weft_status st;
    if (sending && !trailer && k->in_flight >= AHEAD)
        return WEFT_BUSY;
    *whole = trailer || !s->bytes;
    if (trailer) {
        st = post_trailer(op, peer, sending, k);
    } else {
        char *at = s->bytes ? comm_op_resolve(op, &op->program.place[s->place], s->bytes) : NULL;
        at = at ? at + k->post_at : NULL;
        st = comm_post(op, peer, sending, at, n, op->channel->link->region);
        if (st == WEFT_OK && sending && n)
            k->crc = crc32c(k->post_at ? k->crc : (uint32_t)k->trailers_posted, at, n);
    }
    if (st == WEFT_OK) {
        k->in_flight += n;
        k->post_at = *whole ? 0 : k->post_at + n;
    }
    return st;
}

static const char *buffer_name(uint32_t buffer)
{
    static const char *const names[] = {"input", "output", "scratch memory", "table of offsets",
                                        "residual"};
    return buffer < sizeof names / sizeof *names ? names[buffer] : "memory";
}

static weft_status refuse(const comm_op *op, uint32_t peer, const sched_step *s, uint32_t came,
                          uint32_t wanted)
{
    const comm_link *l = op->channel->link;
    const sched_place *at = &op->program.place[s->place];
    const uint32_t from = op->channel->ranks[peer], to = l->world->who.rank;
    const unsigned long long first = at->at, last = at->at + s->bytes - 1;
    return err_fail(WEFT_IO,
                    "a message changed on its way from rank %u (host %s) to rank %u (host %s): "
                    "bytes %llu to %llu of the %s have the CRC32C %08x, and %08x was sent; the "
                    "network cards, cables and memory of these hosts are to be checked",
                    from, l->host[from], to, l->host[to], first, last, buffer_name(at->buffer),
                    came, wanted);
}

weft_status comm_checked_complete(comm_op *op, uint32_t peer, const sched_step *s, int sending,
                                  bool *whole)
{
    comm_checked *k = op->channel->wire[peer].flow[sending].checked;
    uint64_t left = s->bytes - k->done_at, n = left < CHUNK ? left : CHUNK;
    *whole = !left;
    if (left && !sending) {
        const char *at = comm_op_resolve(op, &op->program.place[s->place], s->bytes);
        k->crc = crc32c(k->done_at ? k->crc : (uint32_t)k->trailers_done, at + k->done_at, n);
    }
    k->done_at += n;
    k->in_flight -= n;
    if (left || !s->bytes)
        return WEFT_OK;
    const uint32_t sent = k->trailer[k->trailers_done++ % TRAILERS];
    k->done_at = 0;
    return sending || sent == k->crc ? WEFT_OK : refuse(op, peer, s, k->crc, sent);
}
