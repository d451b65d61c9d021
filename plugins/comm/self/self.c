/* plugins/comm/self: a loopback transport, the smallest complete plugin. Read this one first.
 *
 * The k-th send of a connection is copied to its k-th receive. Functions are in the order in which
 * the core calls them (weft/link.h), the manifest last. */
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
    (void)conf; /* `auto` probes only groups of two or more ranks */
    const weft_host *host = module;
    (void)!host->fail(host->ctx, WEFT_UNSUPPORTED, "self reaches no other rank");
    *score = 0;
    return weft_check_args(host, group, sizeof *group, 0);
}

/* --- The link. `module` is what open() returned: here the host's table --- */
static weft_status self_create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = module; /* a real transport listens on args->bind_addr */
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_link *l = weft_new(host, sizeof *l, &st);
    if (l)
        (*out = l)->host = host;
    return st;
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
static weft_status self_connect(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = weft_check_args(l->host, args, sizeof *args, 0);
    if (st == WEFT_OK && args->peer != 0)
        st = l->host->fail(l->host->ctx, WEFT_USAGE, "self serves jobs of one rank: name another");
    weft_conn *c = weft_new(l->host, sizeof *c, &st);
    if (c)
        (*out = c)->link = l;
    return st;
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
static weft_status post(weft_conn *c, struct iovec *queue, uint64_t *posted, struct iovec m,
                        uint32_t flags)
{
    if (flags) /* none is known yet: one that is set asks for more than this plugin can do */
        return weft_refuse_unknown(c->link->host);
    if (*posted - c->done == QUEUE)
        return WEFT_BUSY;
    queue[(*posted)++ % QUEUE] = m;
    return self_ready(c);
}

static weft_status self_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                             uint32_t flags)
{
    (void)region;
    return post(c, c->send, &c->sends, (struct iovec){(void *)(uintptr_t)from, bytes}, flags);
}

static weft_status self_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *r, uint32_t flags)
{
    (void)r;
    return post(c, c->recv, &c->recvs, (struct iovec){to, bytes}, flags);
}

static weft_status self_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    if (flags)
        return weft_refuse_unknown(c->link->host);
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

static weft_status self_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    (void)spin_us, (void)timeout_us; /* only the caller makes progress, so do not sleep */
    return weft_check_flags(l->host, flags, 0);
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
    self_wait, self_wake, self_abort, NULL, NULL, NULL, NULL, NULL, NULL};
static const weft_component self = {
    sizeof self, 0, "weft.link/1", "self", "one rank that sends to itself", NULL, &table, NULL};
static const weft_component *const components[] = {&self, NULL};
WEFT_PLUGIN("weft.self", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
