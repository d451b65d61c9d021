/* mpilink.c: a transport over MPI's point-to-point messages.
 *
 * A connection is a pair of ranks and a tag. The tag is made of the number of the receiver's link,
 * which is its address, and the channel; MPI keeps the order of messages with equal tags. Messages
 * are cut into pieces, since MPI counts in int, and each piece is a request in a queue. The first
 * message of a connection is empty: when it has gone and arrived, both ends are up. MPI trusts the
 * ranks that mpirun has started, and so does this link.
 *
 * Two links of a process may be in two threads, so MPI has to support MPI_THREAD_MULTIPLE. */
#include "once.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <weft/device.h>
#include <weft/link.h>

enum { QUEUE = 256, CHANNELS = 4096, LINKS = 8 };
#define PIECE ((uint64_t)1 << 30)

typedef struct piece {
    MPI_Request request;
    int bytes, last; /* last: of its message */
} piece;

typedef struct queue {
    piece piece[QUEUE];
    uint64_t posted, finished; /* pieces */
    uint64_t messages;         /* finished ones */
} queue;

struct weft_conn {
    weft_link *link;
    int peer, tag_out, tag_in;
    queue out, in;
};

struct weft_link {
    const weft_host *host;
    uint32_t number; /* among the links of this process */
    atomic_int aborted, woken;
};

static atomic_uint links;

static weft_status gone(const weft_conn *c)
{
    char text[80];
    snprintf(text, sizeof text, "the connection with rank %d was aborted", c->peer);
    return c->link->host->fail(c->link->host->ctx, WEFT_PEER, text);
}

/* --- the link --- */

static weft_status probe(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score)
{
    const weft_host *h = module;
    (void)conf;
    *score = 0;
    if (!(group->device_caps & WEFT_DEV_HOST_MEMORY))
        (void)!h->fail(h->ctx, WEFT_UNSUPPORTED, "it works on host memory only");
    else if (mpi_launched(h) == WEFT_OK)
        *score = 7;
    return WEFT_OK;
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *h = module;
    weft_status st = weft_check_args(h, args, sizeof *args, 0);
    if (st == WEFT_OK)
        st = mpi_start(h, args->rank, MPI_THREAD_MULTIPLE);
    weft_link *l = weft_new(h, sizeof *l, &st);
    if (!l)
        return st;
    l->host = h;
    l->number = atomic_fetch_add(&links, 1) % LINKS;
    *out = l;
    return WEFT_OK;
}

static void destroy(weft_link *l)
{
    if (l)
        l->host->free(l->host->ctx, l);
}

static weft_status address(weft_link *l, void *out, uint64_t *bytes)
{
    memcpy(out, &l->number, sizeof l->number);
    *bytes = sizeof l->number;
    return WEFT_OK;
}

static void wake(weft_link *l)
{
    atomic_store(&l->woken, 1);
}

static void abort_link(weft_link *l)
{
    atomic_store(&l->aborted, 1);
    mpi_failed = 1;
    wake(l);
}

/* --- messages --- */

static weft_status post(weft_conn *c, int out, char *at, uint64_t bytes, uint32_t flags)
{
    queue *q = out ? &c->out : &c->in;
    const uint64_t pieces = bytes ? (bytes + PIECE - 1) / PIECE : 1;
    if (flags)
        return weft_refuse_unknown(c->link->host);
    if (atomic_load(&c->link->aborted))
        return gone(c);
    if (pieces > QUEUE)
        return c->link->host->fail(c->link->host->ctx, WEFT_UNSUPPORTED, "a message has 256 GiB");
    if (q->posted - q->finished + pieces > QUEUE)
        return WEFT_BUSY;
    for (uint64_t i = 0; i < pieces; i++) {
        const uint64_t left = bytes - i * PIECE;
        piece *p = &q->piece[q->posted % QUEUE];
        p->bytes = (int)(left < PIECE ? left : PIECE);
        p->last = i + 1 == pieces;
        const int error = out ? MPI_Isend(at + i * PIECE, p->bytes, MPI_BYTE, c->peer, c->tag_out,
                                          MPI_COMM_WORLD, &p->request)
                              : MPI_Irecv(at + i * PIECE, p->bytes, MPI_BYTE, c->peer, c->tag_in,
                                          MPI_COMM_WORLD, &p->request);
        if (error != MPI_SUCCESS)
            return mpi_says(c->link->host, WEFT_IO, "a message cannot be posted", error);
        q->posted++;
    }
    return WEFT_OK;
}

/* Test the oldest pieces of one direction. */
static weft_status settle(weft_conn *c, queue *q, int out)
{
    while (q->finished < q->posted) {
        piece *p = &q->piece[q->finished % QUEUE];
        MPI_Status status;
        int over, got = p->bytes;
        const int error = MPI_Test(&p->request, &over, &status);
        if (error != MPI_SUCCESS)
            return mpi_says(c->link->host, WEFT_PEER, "a message failed", error);
        if (!over)
            return WEFT_OK;
        if (!out)
            MPI_Get_count(&status, MPI_BYTE, &got);
        if (got != p->bytes) {
            char text[120];
            snprintf(text, sizeof text, "rank %d has sent %d bytes where %d are expected", c->peer,
                     got, p->bytes);
            return c->link->host->fail(c->link->host->ctx, WEFT_PEER, text);
        }
        q->messages += (uint64_t)p->last;
        q->finished++;
    }
    return WEFT_OK;
}

static weft_status advance(weft_conn *c)
{
    weft_status st = atomic_load(&c->link->aborted) ? gone(c) : settle(c, &c->out, 1);
    return st != WEFT_OK ? st : settle(c, &c->in, 0);
}

static weft_status post_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none,
                             uint32_t flags)
{
    (void)none;
    return post(c, 1, (char *)(uintptr_t)from, bytes, flags);
}

static weft_status post_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none,
                             uint32_t flags)
{
    (void)none;
    return post(c, 0, to, bytes, flags);
}

/* The greeting is not counted. */
static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
    weft_status st = advance(c);
    if (st == WEFT_OK) {
        *sent = c->out.messages - 1;
        *received = c->in.messages - 1;
    }
    return st;
}

/* MPI has nothing to sleep on: nap, and return early. */
static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(l->host);
    (void)spin_us;
    const uint32_t us = timeout_us < 20 ? timeout_us : 20;
    if (!atomic_exchange(&l->woken, 0))
        nanosleep(&(struct timespec){0, (long)us * 1000}, NULL);
    return WEFT_OK;
}

/* --- connections --- */

static void disconnect(weft_conn *c)
{
    if (!c)
        return;
    queue *const both[] = {&c->in, &c->out};
    for (int i = 0; i < 2; i++)
        for (queue *q = both[i]; q->finished < q->posted; q->finished++) {
            MPI_Request *r = &q->piece[q->finished % QUEUE].request;
            int over = 0;
            if (MPI_Test(r, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS || over)
                continue;
            MPI_Cancel(r); /* of a send, a request only */
            MPI_Request_free(r);
        }
    c->link->host->free(c->link->host->ctx, c);
}

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = weft_check_args(l->host, args, sizeof *args, 0);
    uint32_t theirs = 0;
    if (st == WEFT_OK && (args->bytes != sizeof theirs || args->channel >= CHANNELS))
        st = l->host->fail(l->host->ctx, WEFT_DATA, "the address of a peer is invalid");
    weft_conn *c = weft_new(l->host, sizeof *c, &st);
    if (!c)
        return st;
    memcpy(&theirs, args->address, sizeof theirs);
    c->link = l;
    c->peer = (int)args->peer;
    c->tag_out = (int)(theirs % LINKS * CHANNELS + args->channel);
    c->tag_in = (int)(l->number * CHANNELS + args->channel);
    st = post(c, 0, NULL, 0, 0);
    if (st == WEFT_OK)
        st = post(c, 1, NULL, 0, 0);
    if (st == WEFT_OK)
        *out = c;
    else
        disconnect(c);
    return st;
}

static weft_status ready(weft_conn *c)
{
    weft_status st = advance(c);
    return st != WEFT_OK ? st : c->in.messages && c->out.messages ? WEFT_OK : WEFT_BUSY;
}

static const weft_link_table table = {.struct_size = sizeof table,
                                      .caps = WEFT_LINK_HOST,
                                      .probe = probe,
                                      .create = create,
                                      .destroy = destroy,
                                      .address = address,
                                      .connect = connect_to,
                                      .ready = ready,
                                      .disconnect = disconnect,
                                      .send = post_send,
                                      .recv = post_recv,
                                      .progress = progress,
                                      .wait = wait_for,
                                      .wake = wake,
                                      .abort = abort_link};
static const weft_component component = {sizeof component,  0,    "weft.link/1", "acme.mpilink",
                                         "messages of MPI", NULL, &table,        NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.mpilink", "1", "", components, weft_open_host, NULL);
