/* plugins/comm/self: a whole transport on one page. Read this one first.
 *
 * It carries messages from a rank to itself, which needs no wire: the k-th send of a connection is
 * copied to the k-th receive once both are posted. The rest is the shape of every transport: one
 * object a job (the link), one a peer and channel (the connection). With a wire, address() and
 * connect() find the peer, ready() authenticates it, and progress() moves what can move now. */
#include <weft/link.h>

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

enum { QUEUE = 64 }; /* unfinished messages that a connection holds each way */

struct weft_link {
    const weft_host *host;
    _Atomic int aborted; /* abort() comes from any thread */
};

struct weft_conn {
    weft_link *link;
    uint64_t sends, recvs, done; /* posted so far; finished, which here is the same both ways */
    struct iovec send[QUEUE], recv[QUEUE];
};

static weft_status fail(const weft_host *host, weft_status code, const char *why)
{
    return host->fail(host->ctx, code, why);
}

static weft_status self_probe(void *host, const weft_conf *conf, const weft_link_group *group,
                              int32_t *score)
{
    (void)conf, (void)group, (void)!fail(host, WEFT_UNSUPPORTED, "self reaches no other rank");
    return *score = 0, WEFT_OK; /* whoever asks has a group of two ranks at least */
}

static weft_status self_create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = module;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (l == NULL)
        return fail(host, WEFT_NO_MEMORY, "no memory for a link");
    return l->host = host, *out = l, (void)args, WEFT_OK; /* a wire needs the address in args */
}

static void self_destroy(weft_link *l)
{
    if (l != NULL)
        l->host->free(l->host->ctx, l);
}

static weft_status self_address(weft_link *l, void *out, uint64_t *bytes)
{
    *bytes = 0; /* nobody has to find us */
    return (void)l, (void)out, WEFT_OK;
}

static weft_status self_connect(weft_link *l, uint32_t peer, uint32_t channel, const void *address,
                                uint64_t bytes, weft_conn **out)
{
    (void)channel, (void)address, (void)bytes; /* each connection has its own order anyhow */
    if (peer != 0)
        return fail(l->host, WEFT_USAGE, "self carries jobs of one rank: name another transport");
    weft_conn *c = l->host->alloc(l->host->ctx, sizeof *c, 0);
    if (c == NULL)
        return fail(l->host, WEFT_NO_MEMORY, "no memory for a connection");
    return c->link = l, *out = c, WEFT_OK;
}

static weft_status self_ready(weft_conn *c)
{
    return c->link->aborted ? fail(c->link->host, WEFT_PEER, "self was aborted") : WEFT_OK;
}

static void self_disconnect(weft_conn *c)
{
    if (c != NULL)
        c->link->host->free(c->link->host->ctx, c);
}

static weft_status post(weft_conn *c, struct iovec *queue, uint64_t *posted, struct iovec m)
{
    if (*posted - c->done == QUEUE)
        return WEFT_BUSY;
    queue[(*posted)++ % QUEUE] = m;
    return self_ready(c);
}

static weft_status self_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *none)
{
    return (void)none, post(c, c->send, &c->sends, (struct iovec){(void *)from, bytes});
}

static weft_status self_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *none)
{
    return (void)none, post(c, c->recv, &c->recvs, (struct iovec){to, bytes});
}

static weft_status self_progress(weft_conn *c, uint64_t *sent, uint64_t *received)
{
    for (; c->done < c->sends && c->done < c->recvs; c->done++) {
        struct iovec from = c->send[c->done % QUEUE], to = c->recv[c->done % QUEUE];
        char why[80];
        snprintf(why, sizeof why, "%zu bytes sent, %zu expected", from.iov_len, to.iov_len);
        if (from.iov_len != to.iov_len)
            return fail(c->link->host, WEFT_PEER, why);
        if (to.iov_len > 0)
            memmove(to.iov_base, from.iov_base, to.iov_len);
    }
    *sent = *received = c->done;
    return self_ready(c);
}

static weft_status self_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    return (void)l, (void)spin_us, (void)timeout_us, WEFT_OK; /* only the caller brings progress */
}

static void self_wake(weft_link *l)
{
    (void)l; /* wait() never sleeps */
}

static void self_abort(weft_link *l)
{
    l->aborted = 1;
}

static weft_status self_open(const weft_host *host, void **module)
{
    return *module = (void *)host, WEFT_OK; /* the host table is all that we need of a job */
}

/* clang-format off */
static const weft_link_table table = {
    sizeof table, 0, WEFT_LINK_HOST | WEFT_LINK_LOCAL, self_probe, self_create, self_destroy,
    self_address, self_connect, self_ready, self_disconnect, self_send, self_recv, self_progress,
    self_wait, self_wake, self_abort, NULL, NULL, NULL, NULL, NULL}; /* no memory to register */
static const weft_component self = {
    sizeof self, 0, "weft.link/1", "self", "one rank that sends to itself", NULL, &table};
static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD, "weft.self", "0.1.0", "Apache-2.0", __VERSION__,
    (const weft_component *const[]){&self, NULL}, self_open, NULL};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
