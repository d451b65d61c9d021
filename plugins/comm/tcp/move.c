/* move.c: messages over a connection that is up.
 *
 * On the wire: 16 bytes (magic, message number, byte count), then the payload. Both ends know every
 * count beforehand, so a receive hands the kernel the header's place and the user's own memory for
 * several messages in one call, and the counts are compared once the header is there. Nothing is
 * copied on our side, and 16 messages, or 2 MiB of a long one, cost one system call. */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

static const uint8_t magic[4] = {'w', 'f', 't', 'M'};

static void header(uint8_t head[HEADER], uint64_t number, uint64_t bytes)
{
    memcpy(head, magic, sizeof magic);
    for (int i = 0; i < 4; i++)
        head[4 + i] = (uint8_t)(number >> 8 * i);
    for (int i = 0; i < 8; i++)
        head[8 + i] = (uint8_t)(bytes >> 8 * i);
}

static weft_status post(weft_conn *c, queue *q, void *at, uint64_t bytes)
{
    weft_status st = tcp_usable(c);
    if (st != WEFT_OK)
        return st;
    if (q->posted - q->done == QUEUE)
        return WEFT_BUSY;
    message *m = &q->m[q->posted % QUEUE];
    m->at = at;
    m->bytes = bytes;
    if (q == &c->out)
        header(m->head, q->posted, bytes);
    q->posted++;
    return WEFT_OK;
}

weft_status tcp_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region)
{
    (void)region;
    return post(c, &c->out, (void *)(uintptr_t)from, bytes);
}

weft_status tcp_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region)
{
    (void)region;
    return post(c, &c->in, to, bytes);
}

/* What is left of the first messages, up to BATCH of them and SLICE bytes. */
static int gather(queue *q, struct iovec *v, uint64_t *total)
{
    int n = 0;
    uint64_t skip = q->at, room = SLICE, last = q->done + BATCH;
    if (last > q->posted)
        last = q->posted;
    *total = 0;
    for (uint64_t k = q->done; k < last && room > 0; k++, skip = 0) {
        message *m = &q->m[k % QUEUE];
        if (skip < HEADER) {
            v[n++] = (struct iovec){m->head + skip, HEADER - skip};
            *total += HEADER - skip;
            skip = HEADER;
        }
        uint64_t off = skip - HEADER, left = m->bytes - off;
        if (left > room)
            left = room;
        if (left > 0)
            v[n++] = (struct iovec){m->at + off, left};
        *total += left;
        room -= left;
    }
    return n;
}

/* Is the header that came the one that the posted receive expects? */
static weft_status judge(weft_conn *c, const message *m)
{
    uint8_t want[HEADER];
    uint64_t sent = 0;
    header(want, c->in.done, m->bytes);
    if (memcmp(want, m->head, HEADER) == 0)
        return WEFT_OK;
    if (memcmp(want, m->head, 8) != 0)
        return tcp_break(c, WEFT_DATA, "rank %u sent on channel %u what is no message of ours",
                         c->peer, c->channel);
    for (int i = 0; i < 8; i++)
        sent |= (uint64_t)m->head[8 + i] << 8 * i;
    return tcp_break(c, WEFT_PEER,
                     "message %llu of channel %u: rank %u sent %llu bytes, this rank expects %llu",
                     (unsigned long long)c->in.done, c->channel, c->peer, (unsigned long long)sent,
                     (unsigned long long)m->bytes);
}

/* `bytes` more have moved: which messages have finished? */
static weft_status advance(weft_conn *c, queue *q, uint64_t bytes)
{
    q->at += bytes;
    while (q->done < q->posted && q->at >= HEADER) {
        message *m = &q->m[q->done % QUEUE];
        if (q == &c->in) { /* again for each part of a long message: 16 bytes compared */
            weft_status st = judge(c, m);
            if (st != WEFT_OK)
                return st;
        }
        if (q->at - HEADER < m->bytes)
            break;
        q->at -= HEADER + m->bytes;
        q->done++;
    }
    return WEFT_OK;
}

static weft_status gone(weft_conn *c, bool sending, int why)
{
    if (why == 0)
        return tcp_break(c, WEFT_PEER, "rank %u closed channel %u while message %llu was awaited",
                         c->peer, c->channel, (unsigned long long)c->in.done);
    return tcp_break(c, WEFT_PEER, "%s rank %u on channel %u failed: %s",
                     sending ? "sending to" : "receiving from", c->peer, c->channel, strerror(why));
}

static weft_status move_bare(weft_conn *c, queue *q, bool *able)
{
    struct iovec v[2 * BATCH];
    bool sending = q == &c->out;
    uint64_t total;
    struct msghdr h = {.msg_iov = v, .msg_iovlen = (size_t)gather(q, v, &total)};
    ssize_t n = sending ? sendmsg(c->io.fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recvmsg(c->io.fd, &h, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
        return WEFT_OK;
    if (n < 0 && errno == EAGAIN) {
        *able = false;
        return WEFT_OK;
    }
    if (n < 0 || (n == 0 && !sending))
        return gone(c, sending, n < 0 ? errno : 0);
    /* Less than asked: the kernel's buffer is empty or full, and an event will come, unless the
     * last one told of the end already. */
    *able = (uint64_t)n == total || (c->io.ended && !sending);
    return advance(c, q, (uint64_t)n);
}

static weft_status move_secure(weft_conn *c, queue *q, bool *able)
{
    struct iovec v[2 * BATCH];
    const weft_host_tls *tls = c->link->tls;
    bool sending = q == &c->out;
    uint64_t total, done = 0;
    int n = gather(q, v, &total);
    for (int i = 0; i < n; i++) {
        weft_status st = sending ? tls->write(c->tls, v[i].iov_base, v[i].iov_len, &done)
                                 : tls->read(c->tls, v[i].iov_base, v[i].iov_len, &done);
        if (st == WEFT_BUSY) {
            *able = false;
            return WEFT_OK;
        }
        if (st != WEFT_OK)
            return gone(c, sending, 0);
        st = advance(c, q, done);
        if (st != WEFT_OK || done < v[i].iov_len)
            return st;
    }
    return WEFT_OK;
}

static weft_status move(weft_conn *c, queue *q, bool *able)
{
    if (q->done == q->posted || !*able)
        return WEFT_OK;
    return c->tls ? move_secure(c, q, able) : move_bare(c, q, able);
}

bool tcp_can_move(const weft_conn *c)
{
    return c->broken != WEFT_OK || (c->io.writable && c->out.done < c->out.posted) ||
           (c->io.readable && c->in.done < c->in.posted);
}

weft_status tcp_progress(weft_conn *c, uint64_t *sent, uint64_t *received)
{
    weft_link *l = c->link;
    weft_status st = tcp_usable(c);
    if (st != WEFT_OK)
        return st;
    if (c->up) {
        /* Ask the kernel for events only when this connection has used up those it had. */
        if (c->seen == l->round && !tcp_can_move(c))
            tcp_events(l, 0);
        c->seen = l->round;
        st = move(c, &c->out, &c->io.writable);
        if (st == WEFT_OK)
            st = move(c, &c->in, &c->io.readable);
        if (st != WEFT_OK)
            return st;
    }
    *sent = c->out.done;
    *received = c->in.done;
    return WEFT_OK;
}
