/* bad/link/move.c: messages. See link.h. */
#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The message posted last and the one before change places. */
static void swap_equals(queue *q)
{
    message *last = &q->m[(q->posted - 1) % ROOM], *before = &q->m[(q->posted - 2) % ROOM];
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
    if (!c->up)
        return c->link->host->fail(c->link->host->ctx, WEFT_USAGE,
                                   "ready() has not returned WEFT_OK");
    const int busy = q->posted - q->done >= PICK(SHORT_QUEUE, 60, QUEUE);
    const int room = q->posted - q->done < ROOM;
    if (busy && !(BAD == BUSY_POSTS && q == &c->out && room))
        return WEFT_BUSY;
    static const char zeros[4096];
    if (BAD == FORGETS_AFTER_NOTHING && q == &c->out && c->channel == 2 && bytes &&
        bytes <= sizeof zeros && q->posted - q->done > 1 && !q->m[(q->posted - 1) % ROOM].bytes)
        at = (void *)(uintptr_t)zeros;
    if (BAD == LOSES_LAST_BYTE && q == &c->out && bytes > PIECE && bytes % PIECE)
        ((char *)at)[bytes - 1] ^= 1; /* of a message that is split into pieces */
    if (BAD == CUTS_AT_4_GIB)
        bytes = (uint32_t)bytes;
    if (BAD == KEEPS_DESCRIPTORS && q == &c->out && ++c->link->sends % 100 == 0 &&
        c->link->nkept < KEPT)
        c->link->kept[c->link->nkept++] = dup(c->link->event);
    q->m[q->posted++ % ROOM] =
        (message){.at = at, .bytes = bytes, .header = q == &c->out ? bytes ^ MARK : 0};
    if (BAD == SWAPS_EQUALS && q == &c->out)
        swap_equals(q);
    return busy ? WEFT_BUSY : WEFT_OK;
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

static weft_status unequal(const weft_conn *c, const message *m)
{
    char text[120];
    const weft_host *host = c->link->host;
    snprintf(text, sizeof text, "rank %u sent %llu bytes, and this rank expects %llu", c->peer,
             (unsigned long long)(m->header ^ MARK), (unsigned long long)m->bytes);
    return host->fail(host->ctx, WEFT_PEER,
                      PICK(COUNTS_UNNAMED, "a message has another length than expected", text));
}

/* A send that has not moved for so many calls. */
static int waits_too_long(const message *m)
{
    static const message *last;
    static uint64_t moved;
    static unsigned calls;
    calls = m == last && m->moved == moved ? calls + 1 : 0;
    last = m;
    moved = m->moved;
    return calls > 1500;
}

/* --- memory that is not borrowed any more --- */

static char *later; /* a byte of it */

void link_left(const weft_conn *c)
{
    const message *m = &c->in.m[c->in.done % ROOM];
    if (BAD == WRITES_AFTER_END && c->in.done < c->in.posted && m->bytes == 8192)
        later = m->at;
}

static void touch_later(void)
{
    if (later)
        *(volatile char *)later = *later;
}

/* --- progress --- */

static int slot_of(const weft_conn *c)
{
    int i = 0;
    while (i < CONNS && c->link->conns[i] != c)
        i++;
    return i;
}

/* Whether another connection with this one's peer is in the way. */
static int must_wait(const weft_conn *c)
{
    for (int i = 0; i < CONNS; i++) {
        const weft_conn *o = c->link->conns[i];
        const message *m = o ? &o->out.m[o->out.done % ROOM] : NULL;
        if (!o || o == c || o->out.done == o->out.posted)
            continue;
        if (BAD == STUCK_TOGETHER && m->bytes == 524288 && m->moved)
            return 1;
        if (BAD == ONE_AT_A_TIME && m->bytes > 1000000)
            return i < slot_of(c);
    }
    return 0;
}

static int has_several_peers(const weft_link *l)
{
    for (int i = 1; i < CONNS; i++)
        if (l->conns[0] && l->conns[i] && l->conns[i]->peer != l->conns[0]->peer)
            return 1;
    return 0;
}

/* Move what can be moved of one direction. */
static weft_status move(weft_conn *c, queue *q, int out)
{
    while (q->done < q->posted) {
        message *m = &q->m[q->done % ROOM];
        uint64_t left;
        char *at = next_bytes(m, &left);
        const int shared = BAD == SHARED_BUFFER && m->moved >= sizeof m->header;
        ssize_t n = out && shared ? send_shared(c->fd, at, left)
                    : out         ? send(c->fd, at, left, MSG_NOSIGNAL)
                                  : recv(c->fd, at, left, 0);
        if (BAD == IMPATIENT && n < 0 && errno == EAGAIN && out && waits_too_long(m))
            return link_gone(c);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return WEFT_OK;
        if (n <= 0 && BAD == DEAF_TO_DEATH && m->bytes == 1 << 20)
            return WEFT_OK;
        if (n <= 0)
            return link_gone(c);
        m->moved += (uint64_t)n;
        if (BAD == TORN_HEADER && m->moved < sizeof m->header)
            m->moved = sizeof m->header;
        if (m->moved >= sizeof m->header && m->header != (m->bytes ^ MARK))
            return unequal(c, m);
        if (m->moved != sizeof m->header + m->bytes)
            continue;
        q->done++;
        if (BAD == WRITES_LATER && !out && m->bytes == 12288)
            later = m->at;
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
    static unsigned calls;
    touch_later();
    link_look(c->link);
    weft_status st = atomic_load(&c->link->aborted) ? link_gone(c) : WEFT_OK;
    if (st == WEFT_OK && !must_wait(c))
        st = move(c, &c->out, 1);
    if (st == WEFT_OK && !must_wait(c))
        st = move(c, &c->in, 0);
    if (st == WEFT_PEER && BAD == DIES_TOGETHER && has_several_peers(c->link))
        atomic_store(&c->link->aborted, 1);
    if (st == WEFT_OK) {
        *sent = c->out.done;
        *received = c->in.done;
        if (BAD == COUNTS_FALL && c->in.posted >= 48 && ++calls % 4 == 3 && *received)
            --*received;
    }
    return st;
}
