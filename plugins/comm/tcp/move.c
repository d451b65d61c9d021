/* move.c: messages over a connection that is up.
 *
 * On the wire: a header of 16 bytes (magic, message number, byte count), then the payload. Both
 * ends know every count beforehand. So a receive passes the kernel the places of several headers
 * and the caller's own memory in one call, and compares the counts once a header is there. Nothing
 * is copied in this process; 16 messages, or 2 MiB of a long one, cost one system call. */
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
    weft_status st = sockets_usable(&c->peer);
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

/* The remaining parts of the first messages, up to BATCH messages and SLICE bytes. */
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

/* The received header must be the one that the posted receive expects. */
static weft_status check_header(weft_conn *c, const message *m)
{
    uint8_t want[HEADER];
    uint64_t sent = 0;
    header(want, c->in.done, m->bytes);
    if (memcmp(want, m->head, HEADER) == 0)
        return WEFT_OK;
    if (memcmp(want, m->head, 8) != 0)
        return sockets_break(&c->peer, WEFT_DATA,
                             "rank %u sent bytes on channel %u that are not a message of tcp",
                             c->peer.rank, c->peer.channel);
    for (int i = 0; i < 8; i++)
        sent |= (uint64_t)m->head[8 + i] << 8 * i;
    return sockets_break(
        &c->peer, WEFT_PEER,
        "message %llu of channel %u: rank %u sent %llu bytes, this rank expects %llu",
        (unsigned long long)c->in.done, c->peer.channel, c->peer.rank, (unsigned long long)sent,
        (unsigned long long)m->bytes);
}

/* `bytes` more have moved; count the messages that are finished. */
static weft_status advance(weft_conn *c, queue *q, uint64_t bytes)
{
    q->at += bytes;
    while (q->done < q->posted && q->at >= HEADER) {
        message *m = &q->m[q->done % QUEUE];
        if (q == &c->in) { /* again for each part of a long message: 16 bytes compared */
            weft_status st = check_header(c, m);
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

static weft_status connection_lost(weft_conn *c, bool sending, int why)
{
    if (why == 0)
        return sockets_break(&c->peer, WEFT_PEER,
                             "rank %u closed channel %u while message %llu was awaited",
                             c->peer.rank, c->peer.channel, (unsigned long long)c->in.done);
    return sockets_break(&c->peer, WEFT_PEER, "%s rank %u on channel %u failed: %s",
                         sending ? "sending to" : "receiving from", c->peer.rank, c->peer.channel,
                         strerror(why));
}

static weft_status move_bare(weft_conn *c, queue *q, bool *able)
{
    struct iovec v[2 * BATCH];
    bool sending = q == &c->out;
    uint64_t total;
    struct msghdr h = {.msg_iov = v, .msg_iovlen = (size_t)gather(q, v, &total)};
    ssize_t n = sending ? sendmsg(c->peer.io.fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recvmsg(c->peer.io.fd, &h, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
        return WEFT_OK;
    if (n < 0 && errno == EAGAIN) {
        *able = false;
        return WEFT_OK;
    }
    if (n < 0 || (n == 0 && !sending))
        return connection_lost(c, sending, n < 0 ? errno : 0);
    /* Less than asked: the kernel's buffer is empty or full. An event will follow, unless the last
     * one has reported the end of the stream. */
    *able = (uint64_t)n == total || (c->peer.io.ended && !sending);
    return advance(c, q, (uint64_t)n);
}

static weft_status move_secure(weft_conn *c, queue *q, bool *able)
{
    struct iovec v[2 * BATCH];
    const weft_host_tls *tls = c->peer.link->tls;
    bool sending = q == &c->out;
    uint64_t total, done = 0;
    int n = gather(q, v, &total);
    for (int i = 0; i < n; i++) {
        weft_status st = sending ? tls->write(c->peer.tls, v[i].iov_base, v[i].iov_len, &done)
                                 : tls->read(c->peer.tls, v[i].iov_base, v[i].iov_len, &done);
        if (st == WEFT_BUSY) {
            *able = false;
            return WEFT_OK;
        }
        if (st != WEFT_OK)
            return connection_lost(c, sending, 0);
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
    return c->peer.tls ? move_secure(c, q, able) : move_bare(c, q, able);
}

bool tcp_can_move(const weft_conn *c)
{
    return c->peer.broken != WEFT_OK || (c->peer.io.writable && c->out.done < c->out.posted) ||
           (c->peer.io.readable && c->in.done < c->in.posted);
}

weft_status tcp_progress(weft_conn *c, uint64_t *sent, uint64_t *received)
{
    sockets_link *net = c->peer.link;
    weft_status st = sockets_usable(&c->peer);
    if (st != WEFT_OK)
        return st;
    if (c->peer.up) {
        /* Ask the kernel only when this connection has used the events of the last round. */
        if (c->seen == net->round && !tcp_can_move(c))
            sockets_events(net, 0);
        c->seen = net->round;
        st = move(c, &c->out, &c->peer.io.writable);
        if (st == WEFT_OK)
            st = move(c, &c->in, &c->peer.io.readable);
        if (st != WEFT_OK)
            return sockets_usable(&c->peer); /* which records why */
    }
    *sent = c->out.done;
    *received = c->in.done;
    return WEFT_OK;
}
