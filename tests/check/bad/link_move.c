/* bad/link_move.c: messages. See link.h. */
#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* The message posted last and the one before change places. */
static void swap_equals(queue *q)
{
    message *last = &q->m[(q->posted - 1) % QUEUE], *before = &q->m[(q->posted - 2) % QUEUE];
    if (q->posted - q->done < 2 || before->moved || last->bytes != before->bytes)
        return;
    char *at = last->at;
    last->at = before->at;
    before->at = at;
}

static weft_status post(weft_conn *c, queue *q, void *at, uint64_t bytes, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
    if (atomic_load(&c->link->aborted))
        return link_gone(c);
    if (q->posted - q->done == QUEUE)
        return WEFT_BUSY;
    static const char zeros[4096];
    if (BAD == FORGETS_AFTER_NOTHING && q == &c->out && c->channel == 2 && bytes &&
        bytes <= sizeof zeros && q->posted - q->done > 1 && !q->m[(q->posted - 1) % QUEUE].bytes)
        at = (void *)(uintptr_t)zeros;
    if (BAD == CUTS_AT_4_GIB)
        bytes = (uint32_t)bytes;
    q->m[q->posted++ % QUEUE] = (message){at, bytes, bytes, 0};
    if (BAD == SWAPS_EQUALS && q == &c->out)
        swap_equals(q);
    return WEFT_OK;
}

weft_status link_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none,
                      uint32_t flags)
{
    (void)none;
    return post(c, &c->out, (void *)from, bytes, flags);
}

weft_status link_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none, uint32_t flags)
{
    (void)none;
    return post(c, &c->in, to, bytes, flags);
}

/* Where the next byte of a message lies, and how many follow it there: header first, then body. */
static char *next_bytes(message *m, uint64_t *left)
{
    if (m->moved < sizeof m->header) {
        *left = sizeof m->header - m->moved;
        return (char *)&m->header + m->moved;
    }
    *left = m->bytes - (m->moved - sizeof m->header);
    return m->at + (m->moved - sizeof m->header);
}

/* send() by way of a buffer that all connections have in common. */
static ssize_t send_shared(int fd, const char *at, uint64_t bytes)
{
    static char buffer[256];
    const size_t n = bytes < sizeof buffer ? bytes : sizeof buffer;
    memcpy(buffer, at, n);
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return send(fd, buffer, n, MSG_NOSIGNAL);
}

/* Move what can be moved of one direction. */
static weft_status move(weft_conn *c, queue *q, int out)
{
    while (q->done < q->posted) {
        message *m = &q->m[q->done % QUEUE];
        uint64_t left;
        char *at = next_bytes(m, &left);
        const int shared = BAD == SHARED_BUFFER && m->moved >= sizeof m->header;
        ssize_t n = out && shared ? send_shared(c->fd, at, left)
                    : out         ? send(c->fd, at, left, MSG_NOSIGNAL)
                                  : recv(c->fd, at, left, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return WEFT_OK;
        if (n <= 0 && BAD == DEAF_TO_DEATH)
            return WEFT_OK;
        if (n <= 0)
            return link_gone(c);
        m->moved += (uint64_t)n;
        if (m->moved >= sizeof m->header && m->header != m->bytes)
            return c->link->host->fail(c->link->host->ctx, WEFT_PEER,
                                       "a message has another length than expected");
        if (m->moved == sizeof m->header + m->bytes)
            q->done++;
    }
    return WEFT_OK;
}

weft_status link_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
    if (BAD == BLOCKS)
        poll(&(struct pollfd){.fd = c->fd, .events = POLLIN}, 1, 10);
    if (BAD == TAKES_MEMORY) {
        void *volatile p = malloc(64);
        free(p);
    }
    weft_status st = atomic_load(&c->link->aborted) ? link_gone(c) : move(c, &c->out, 1);
    if (st == WEFT_OK)
        st = move(c, &c->in, 0);
    if (st == WEFT_OK) {
        *sent = c->out.done;
        *received = c->in.done;
    }
    return st;
}
