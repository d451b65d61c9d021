/* rounds.c: the collectives, as rounds of pieces.
 *
 * Operations of a communicator run one after the other, but sends and receives of one group
 * together: on a stream of bytes, order is all that identifies a message. */
#include "hostcoll.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What this rank sends to rank r in this round; NULL: nothing. */
static const char *to_send(const weft_comm *c, const op *o, uint32_t r)
{
    const int root = c->me == o->root;
    switch (o->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_ALL_GATHER: return o->in + o->at;
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_TO_ALL: return o->in + r * o->bytes + o->at;
    case WEFT_BROADCAST: return root ? o->in + o->at : NULL;
    case WEFT_SCATTER: return root ? o->in + r * o->bytes + o->at : NULL;
    case WEFT_REDUCE:
    case WEFT_GATHER: return r == o->root ? o->in + o->at : NULL;
    case WEFT_SEND: return r == o->root ? o->in + o->at : NULL;
    case WEFT_SHIFT: return r == (c->me + o->root) % c->n ? o->in + o->at : NULL;
    case WEFT_BARRIER: return "";
    default: return NULL;
    }
}

/* Where this rank receives from rank r in this round; NULL: nothing. Pieces that are combined, or
 * that would overwrite what is still to be sent, go through memory of the peer. */
static char *to_receive(const weft_comm *c, const op *o, uint32_t r)
{
    const int root = c->me == o->root;
    switch (o->kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_TO_ALL:
    case WEFT_BARRIER: return c->peer[r].piece;
    case WEFT_REDUCE: return root ? c->peer[r].piece : NULL;
    case WEFT_ALL_GATHER: return o->out + r * o->bytes + o->at;
    case WEFT_GATHER: return root ? o->out + r * o->bytes + o->at : NULL;
    case WEFT_BROADCAST:
    case WEFT_SCATTER: return r == o->root ? o->out + o->at : NULL;
    case WEFT_RECV: return r == o->root ? o->out + o->at : NULL;
    case WEFT_SHIFT: return (r + o->root) % c->n == c->me ? c->peer[r].piece : NULL;
    default: return NULL;
    }
}

/* After a round of `n` bytes: combine, and move this rank's own part. */
static void combine(const weft_comm *c, const op *o, uint64_t n)
{
    const int root = c->me == o->root;
    const char *own = o->in + o->at, *from[64];
    char *to = o->out + o->at;
    switch (o->kind) {
    case WEFT_REDUCE_SCATTER: own += c->me * o->bytes; break;
    case WEFT_ALL_GATHER: to += c->me * o->bytes; break;
    case WEFT_GATHER: to += root ? c->me * o->bytes : 0; break;
    case WEFT_SCATTER: own += root ? c->me * o->bytes : 0; break;
    case WEFT_ALL_TO_ALL:
        for (uint32_t r = 0; r < c->n; r++)
            memmove(to + r * o->bytes, r == c->me ? own + r * o->bytes : c->peer[r].piece, n);
        return;
    case WEFT_SHIFT:
        if (o->root % c->n)
            own = c->peer[(c->me + c->n - o->root % c->n) % c->n].piece;
        memmove(to, own, n);
        return;
    default: break;
    }
    if (o->kind == WEFT_ALL_REDUCE || o->kind == WEFT_REDUCE_SCATTER ||
        (o->kind == WEFT_REDUCE && root)) {
        for (uint32_t r = 0; r < c->n; r++)
            from[r] = r == c->me ? own : c->peer[r].piece;
        hostcoll_reduce(o->dtype, o->redop, from, c->n, to, n / weft_dtype_size(o->dtype));
    } else if (o->kind == WEFT_ALL_GATHER ||
               (root &&
                (o->kind == WEFT_GATHER || o->kind == WEFT_SCATTER || o->kind == WEFT_BROADCAST))) {
        memmove(to, own, n);
    }
}

static weft_status gone(weft_comm *c, uint32_t r)
{
    char text[80];
    snprintf(text, sizeof text, "rank %u has closed its connection", c->members[r]);
    c->failed = 1;
    return hostcoll_fail(c->host, WEFT_PEER, text);
}

/* Move what the socket takes or has of `*moved` ... n bytes. */
static weft_status move(weft_comm *c, uint32_t r, char *at, uint64_t n, uint64_t *moved, int out)
{
    while (*moved < n) {
        const int fd = c->peer[r].fd;
        const ssize_t k = out ? send(fd, at + *moved, n - *moved, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(fd, at + *moved, n - *moved, MSG_DONTWAIT);
        if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return WEFT_OK;
        if (k <= 0)
            return gone(c, r);
        *moved += (uint64_t)k;
    }
    return WEFT_OK;
}

/* One round of a collective; *again: it is over. */
static weft_status advance(weft_comm *c, op *o, int *again)
{
    const uint64_t n = o->kind == WEFT_BARRIER ? 1 : least(o->bytes - o->at, PIECE);
    int all = 1;
    for (uint32_t r = 0; r < c->n; r++) {
        peer *p = &c->peer[r];
        const char *from = r == c->me ? NULL : to_send(c, o, r);
        char *to = r == c->me ? NULL : to_receive(c, o, r);
        weft_status st = from ? move(c, r, (char *)from, n, &p->sent, 1) : WEFT_OK;
        if (st == WEFT_OK && to)
            st = move(c, r, to, n, &p->received, 0);
        if (st != WEFT_OK)
            return st;
        all &= (!from || p->sent == n) && (!to || p->received == n);
    }
    *again = all;
    if (!all)
        return WEFT_OK;
    if (o->kind != WEFT_BARRIER)
        combine(c, o, n);
    for (uint32_t r = 0; r < c->n; r++)
        c->peer[r].sent = c->peer[r].received = 0;
    o->at += n;
    o->done = o->kind == WEFT_BARRIER || o->at == o->bytes;
    return WEFT_OK;
}

static int between_two(const op *o)
{
    return o->kind == WEFT_SEND || o->kind == WEFT_RECV;
}

/* Sends and receives in a row of one group: each goes on unless an earlier one of its kind with its
 * peer is unfinished. *again: all are finished. */
static weft_status advance_pairs(weft_comm *c, int *again)
{
    const uint64_t group = c->queue[c->finished % QUEUE].group;
    *again = 1;
    for (uint64_t i = c->finished; i < c->posted; i++) {
        op *o = &c->queue[i % QUEUE];
        int waits = 0;
        if (o->group != group || !between_two(o))
            break;
        for (uint64_t k = c->finished; k < i; k++) {
            const op *before = &c->queue[k % QUEUE];
            waits |= !before->done && before->kind == o->kind && before->root == o->root;
        }
        char *at = o->kind == WEFT_SEND ? (char *)o->in : o->out;
        weft_status st =
            waits ? WEFT_OK : move(c, o->root, at, o->bytes, &o->at, o->kind == WEFT_SEND);
        if (st != WEFT_OK)
            return st;
        o->done = o->at == o->bytes;
        *again &= o->done;
    }
    return WEFT_OK;
}

weft_status hostcoll_test(weft_comm *c, uint32_t flags, uint64_t *done)
{
    int again = 1;
    if (flags)
        return weft_refuse_unknown(c->host);
    if (atomic_load(&c->aborted) || c->failed)
        return c->host->fail(c->host->ctx, WEFT_PEER, "the communicator has failed");
    while (again && c->finished < c->posted) {
        op *o = &c->queue[c->finished % QUEUE];
        weft_status st = o->done          ? WEFT_OK
                         : between_two(o) ? advance_pairs(c, &again)
                                          : advance(c, o, &again);
        if (st != WEFT_OK)
            return st;
        c->finished += o->done != 0;
    }
    *done = c->finished < c->posted ? c->queue[c->finished % QUEUE].group - 1 : c->started;
    return WEFT_OK;
}

/* --- groups --- */

weft_status hostcoll_begin(void *m, uint32_t flags)
{
    module *own = m;
    own->group = NULL;
    return flags ? weft_refuse_unknown(own->host) : WEFT_OK;
}

weft_status hostcoll_end(void *m, uint32_t flags)
{
    module *own = m;
    for (weft_comm *c = own->group; c; c = c->next) {
        c->started++;
        c->in_group = 0;
    }
    own->group = NULL;
    return flags ? weft_refuse_unknown(own->host) : WEFT_OK;
}

weft_status hostcoll_supports(void *m, uint32_t kind, uint32_t redop, uint32_t dtype)
{
    const weft_host *host = ((module *)m)->host;
    const int reduces =
        kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
    if (kind < WEFT_ALL_REDUCE || kind > WEFT_SHIFT)
        return hostcoll_fail(host, WEFT_UNSUPPORTED, "acme.hostcoll has no such collective");
    if (!weft_dtype_size(dtype) || (reduces && (redop < WEFT_SUM || redop > WEFT_MIN)))
        return hostcoll_fail(host, WEFT_UNSUPPORTED, "acme.hostcoll has no such type or operator");
    return WEFT_OK;
}

weft_status hostcoll_call(weft_comm *c, const weft_coll_call *a)
{
    const uint64_t size = weft_dtype_size(a->dtype), all = a->count * size;
    const int parts = a->kind == WEFT_REDUCE_SCATTER || a->kind == WEFT_ALL_GATHER ||
                      (a->kind >= WEFT_GATHER && a->kind <= WEFT_ALL_TO_ALL);
    if (weft_check_args(c->host, a, sizeof *a, 0) != WEFT_OK)
        return WEFT_UNSUPPORTED;
    weft_status st = hostcoll_supports(c->module, a->kind, a->redop, a->dtype);
    if (st != WEFT_OK)
        return st;
    if ((parts && a->count % c->n) || (a->kind != WEFT_SHIFT && a->root >= c->n) ||
        ((a->kind == WEFT_SEND || a->kind == WEFT_RECV) && a->root == c->me))
        return hostcoll_fail(c->host, WEFT_USAGE,
                             "the count has no equal parts, or there is no such rank");
    if (c->posted - c->finished == QUEUE)
        return hostcoll_fail(c->host, WEFT_NO_MEMORY, "more than 1024 operations are in flight");
    if (!c->in_group) {
        c->next = c->module->group;
        c->module->group = c;
        c->in_group = 1;
    }
    c->queue[c->posted++ % QUEUE] = (op){.kind = a->kind,
                                         .redop = a->redop,
                                         .dtype = a->dtype,
                                         .root = a->root,
                                         .in = a->in,
                                         .out = a->out,
                                         .bytes = parts ? all / c->n : all,
                                         .group = c->started + 1,
                                         .done = !all && a->kind != WEFT_BARRIER};
    return WEFT_OK;
}
