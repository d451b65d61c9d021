/* plugins/comm/self: a loopback transport, the smallest complete plugin. Read this one first.
 *
 * It carries messages of a rank to itself: the k-th send of a connection is copied to the k-th
 * receive. Functions are in the order in which the core calls them (weft/link.h), the manifest
 * last. */
#include <weft/link.h>

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

enum { QUEUE = 64 }; /* posted messages per connection and direction; link.h requires 64 */

struct weft_link { /* one per job; a real transport keeps its sockets here */
    const weft_host *host;
    _Atomic int aborted; /* abort() may come from any thread */
};

struct weft_conn { /* one for each (peer, channel) */
    weft_link *link;
    uint64_t sends, recvs, done; /* posted so far; completed, the same number in both directions */
    struct iovec send[QUEUE], recv[QUEUE];
};

static weft_status self_probe(void *module, const weft_conf *conf, const weft_link_group *group,
                              int32_t *score)
{
    (void)conf, (void)group; /* `auto` probes only groups of two or more ranks */
    const weft_host *host = module;
    (void)!host->fail(host->ctx, WEFT_UNSUPPORTED, "self reaches no other rank");
    *score = 0;
    return WEFT_OK;
}

/* --- The link. `module` is what open() returned: here the host's table --- */
static weft_status self_create(void *module, const weft_link_args *args, weft_link **out)
{
    (void)args; /* a real transport listens on args->bind_addr */
    const weft_host *host = module;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for a link");
    l->host = host;
    *out = l;
    return WEFT_OK;
}

static void self_destroy(weft_link *l)
{
    if (l)
        l->host->free(l->host->ctx, l);
}

static weft_status self_address(weft_link *l, void *out, uint64_t *bytes)
{
    (void)l, (void)out;
    *bytes = 0; /* peers need no address of this rank */
    return WEFT_OK;
}

/* --- A connection. connect() begins; ready() reports that both ends are up --- */
static weft_status self_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                                uint64_t bytes, weft_conn **out)
{
    (void)channel, (void)address, (void)bytes;
    if (peer != 0)
        return l->host->fail(l->host->ctx, WEFT_USAGE,
                             "self carries jobs of one rank: name another transport");
    weft_conn *c = l->host->alloc(l->host->ctx, sizeof *c, 0);
    if (!c)
        return l->host->fail(l->host->ctx, WEFT_NO_MEMORY, "no memory for a connection");
    c->link = l;
    *out = c;
    return WEFT_OK;
}

static weft_status self_ready(weft_conn *c)
{
    return c->link->aborted ? c->link->host->fail(c->link->host->ctx, WEFT_PEER, "self was aborted")
                            : WEFT_OK;
}

static void self_disconnect(weft_conn *c)
{
    if (c)
        c->link->host->free(c->link->host->ctx, c);
}

/* --- Messages. Posting only queues; progress() moves and counts --- */
static weft_status post(weft_conn *c, struct iovec *queue, uint64_t *posted, struct iovec m)
{
    if (*posted - c->done == QUEUE)
        return WEFT_BUSY;
    queue[(*posted)++ % QUEUE] = m;
    return self_ready(c);
}

static weft_status self_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region)
{
    (void)region;
    return post(c, c->send, &c->sends, (struct iovec){(void *)(uintptr_t)from, bytes});
}

static weft_status self_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region)
{
    (void)region;
    return post(c, c->recv, &c->recvs, (struct iovec){to, bytes});
}

static weft_status self_progress(weft_conn *c, uint64_t *sent, uint64_t *received)
{
    for (; c->done < c->sends && c->done < c->recvs; c->done++) {
        const struct iovec from = c->send[c->done % QUEUE], to = c->recv[c->done % QUEUE];
        char why[96];
        snprintf(why, sizeof why, "%zu bytes sent, %zu expected", from.iov_len, to.iov_len);
        if (from.iov_len != to.iov_len)
            return c->link->host->fail(c->link->host->ctx, WEFT_PEER, why);
        if (to.iov_len > 0)
            memmove(to.iov_base, from.iov_base, to.iov_len);
    }
    *sent = *received = c->done;
    return self_ready(c);
}

static weft_status self_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    (void)l, (void)spin_us, (void)timeout_us; /* only the caller makes progress, so do not sleep */
    return WEFT_OK;
}

static void self_wake(weft_link *l)
{
    (void)l;
}

static void self_abort(weft_link *l)
{
    l->aborted = 1;
}

/* --- The manifest: constant data; members without a value are optional --- */
/* clang-format off */
static const weft_link_table table = {
    sizeof table, 0, WEFT_LINK_HOST | WEFT_LINK_LOCAL, self_probe, self_create, self_destroy,
    self_address, self_connect, self_ready, self_disconnect, self_send, self_recv, self_progress,
    self_wait, self_wake, self_abort, NULL, NULL, NULL, NULL, NULL};
static const weft_component self = {
    sizeof self, 0, "weft.link/1", "self", "one rank that sends to itself", NULL, &table};
static const weft_component *const components[] = {&self, NULL};
WEFT_PLUGIN("weft.self", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
