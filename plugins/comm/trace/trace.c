/* plugins/comm/trace: shows every call of another transport in the job's trace.
 *
 * It is a wrapper: each call goes to the transport that [comm.trace] inner names, and in a traced
 * step ([log] trace_steps) the time from call to return becomes a span on a lane of the calling
 * thread. Outside traced steps a call costs one load and a jump more. Calls that return within
 * [comm.trace] shortest are left out, so that polling does not fill the trace.
 *
 *   [comm]
 *   plugin = trace
 *   [comm.trace]
 *   inner = tcp
 *
 * It is also the model of a wrapper: another one that delays, counts or breaks calls has the same
 * shape: an object of its own around each object of the inner link. */
#include <weft/host.h>
#include <weft/link.h>

#include <stdio.h>
#include <string.h>

struct weft_link {
    const weft_host *host;
    const weft_host_trace *trace; /* NULL: this host has none */
    const weft_link_table *table; /* the inner link, and its own object */
    weft_link *inner;
    uint64_t shortest_ns;
};

struct weft_conn {
    weft_link *link;
    weft_conn *inner;
};

struct weft_region {
    weft_link *link;
    weft_region *inner;
};

/* --- time --- */

static uint64_t begin(const weft_link *l)
{
    return l->trace && l->trace->enabled(l->trace->ctx) ? l->trace->now(l->trace->ctx) : 0;
}

static void end(const weft_link *l, const char *name, uint64_t began)
{
    if (!began)
        return;
    const uint64_t now = l->trace->now(l->trace->ctx);
    if (now - began >= l->shortest_ns)
        l->trace->span(l->trace->ctx, name, began, now);
}

/* A call of the inner link as an expression of its status. */
#define TRACED(l, name, call)                                                                      \
    ({                                                                                             \
        const uint64_t began_ = begin(l);                                                          \
        const weft_status st_ = (call);                                                            \
        end((l), (name), began_);                                                                  \
        st_;                                                                                       \
    })

/* --- the inner transport --- */

static weft_status open_inner(const weft_host *host, const weft_conf *conf, weft_component_ref *ref)
{
    const weft_host_component *components =
        (const weft_host_component *)(host->iface)(host->ctx, "weft.host.component/1");
    const weft_component_args args = {sizeof args, 0, "weft.link/1",
                                      conf->text(conf->ctx, "inner")};
    if (!args.name || !args.name[0])
        return (host->fail)(host->ctx, WEFT_USAGE,
                            "comm.trace.inner is empty: name the transport whose calls to show");
    if (!components)
        return (host->fail)(host->ctx, WEFT_UNSUPPORTED,
                            "trace cannot open its inner transport outside a job; weft train and "
                            "weft bench comm can");
    *ref = (weft_component_ref){.struct_size = sizeof *ref};
    return components->open(components->ctx, &args, ref);
}

static weft_status trace_features(void *module, const weft_conf *conf, uint64_t *caps,
                                  uint32_t *channels)
{
    weft_component_ref ref;
    if (!conf->text(conf->ctx, "inner")[0]) /* `auto` asks all transports: probe() says why not */
        return WEFT_OK;
    const weft_status st = open_inner((const weft_host *)module, conf, &ref);
    if (st != WEFT_OK)
        return st;
    const weft_link_table *inner = (const weft_link_table *)ref.table;
    *caps &= inner->caps;
    *channels = inner->channels;
    return WEFT_OK;
}

static weft_status trace_probe(void *module, const weft_conf *conf, const weft_link_group *group,
                               int32_t *score)
{
    weft_component_ref ref;
    weft_status st = weft_check_args((const weft_host *)module, group, sizeof *group, 0);
    *score = 0;
    if (st != WEFT_OK)
        return st;
    st = open_inner((const weft_host *)module, conf, &ref);
    if (st == WEFT_UNSUPPORTED || st == WEFT_USAGE || st == WEFT_ABSENT)
        return WEFT_OK; /* no inner transport here; the reason is recorded */
    if (st != WEFT_OK)
        return st;
    st = ((const weft_link_table *)ref.table)->probe(ref.module, ref.conf, group, score);
    *score = *score > 0; /* `auto` prefers the inner transport itself */
    return st;
}

static weft_status trace_create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = (const weft_host *)module;
    const weft_conf *conf = args->conf;
    weft_component_ref ref;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    if (st == WEFT_OK)
        st = open_inner(host, conf, &ref);
    weft_link *l = (weft_link *)weft_new(host, sizeof *l, &st);
    if (!l)
        return st;
    l->host = host;
    l->trace = (const weft_host_trace *)(host->iface)(host->ctx, "weft.host.trace/1");
    l->table = (const weft_link_table *)ref.table;
    l->shortest_ns = (uint64_t)(conf->real(conf->ctx, "shortest") * 1e9);
    weft_link_args inner = *args;
    inner.conf = ref.conf;
    st = l->table->create(ref.module, &inner, &l->inner);
    if (st != WEFT_OK)
        (host->free)(host->ctx, l);
    else
        *out = l;
    return st;
}

static void trace_destroy(weft_link *l)
{
    if (!l)
        return;
    l->table->destroy(l->inner);
    (l->host->free)(l->host->ctx, l);
}

/* --- connections --- */

static weft_status trace_address(weft_link *l, void *out, uint64_t *bytes)
{
    return TRACED(l, "address", l->table->address(l->inner, out, bytes));
}

static weft_status trace_connect(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = WEFT_OK;
    weft_conn *c = (weft_conn *)weft_new(l->host, sizeof *c, &st);
    if (!c)
        return st;
    c->link = l;
    st = TRACED(l, "connect", l->table->connect(l->inner, args, &c->inner));
    if (st != WEFT_OK)
        (l->host->free)(l->host->ctx, c);
    else
        *out = c;
    return st;
}

static weft_status trace_ready(weft_conn *c)
{
    return TRACED(c->link, "ready", c->link->table->ready(c->inner));
}

static void trace_disconnect(weft_conn *c)
{
    if (!c)
        return;
    const weft_link *l = c->link;
    const uint64_t began = begin(l);
    l->table->disconnect(c->inner);
    end(l, "disconnect", began);
    (l->host->free)(l->host->ctx, c);
}

/* --- memory --- */

static weft_region *inside(const weft_region *r)
{
    return r ? r->inner : NULL;
}

static weft_status trace_register(weft_link *l, const weft_memory *memory, weft_region **out)
{
    weft_status st = WEFT_OK;
    weft_region *r = (weft_region *)weft_new(l->host, sizeof *r, &st);
    if (!r)
        return st;
    r->link = l;
    st = TRACED(l, "register_memory", l->table->register_memory(l->inner, memory, &r->inner));
    if (st != WEFT_OK)
        (l->host->free)(l->host->ctx, r);
    else
        *out = r;
    return st;
}

static void trace_deregister(weft_region *r)
{
    if (!r)
        return;
    r->link->table->deregister_memory(r->inner);
    (r->link->host->free)(r->link->host->ctx, r);
}

static weft_status trace_key(weft_region *r, void *out, uint64_t *bytes)
{
    return TRACED(r->link, "key", r->link->table->key(r->inner, out, bytes));
}

static weft_status trace_map(weft_link *l, uint32_t peer, const void *key, uint64_t bytes,
                             uint32_t flags, void **base)
{
    return TRACED(l, "map", l->table->map(l->inner, peer, key, bytes, flags, base));
}

/* --- messages --- */

static weft_status trace_send(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                              uint32_t flags)
{
    return TRACED(c->link, "send",
                  c->link->table->send(c->inner, from, bytes, inside(region), flags));
}

static weft_status trace_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                              uint32_t flags)
{
    return TRACED(c->link, "recv",
                  c->link->table->recv(c->inner, to, bytes, inside(region), flags));
}

static weft_status trace_progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    return TRACED(c->link, "progress", c->link->table->progress(c->inner, flags, sent, received));
}

static weft_status trace_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    return TRACED(l, "wait", l->table->wait(l->inner, spin_us, timeout_us, flags));
}

static void trace_wake(weft_link *l)
{
    l->table->wake(l->inner);
}

static void trace_abort(weft_link *l)
{
    l->table->abort(l->inner);
}

/* --- the plugin --- */

static const weft_option inner = {.struct_size = sizeof inner,
                                  .type = WEFT_OPT_STRING,
                                  .key = "inner",
                                  .dflt = "",
                                  .help = "the transport whose calls the trace shows, such as tcp"};
static const weft_option shortest = {.struct_size = sizeof shortest,
                                     .type = WEFT_OPT_SECONDS,
                                     .key = "shortest",
                                     .dflt = "0.000002",
                                     .help = "leave out calls that return within this time; 0: all",
                                     .min = 0,
                                     .max = 10};
static const weft_option *const options[] = {&inner, &shortest, NULL};

static const weft_link_table table = {
    .struct_size = sizeof table,
    .channels = 0,
    .caps = WEFT_LINK_HOST | WEFT_LINK_CUDA | WEFT_LINK_REGISTER | WEFT_LINK_MAP | WEFT_LINK_LOCAL |
            WEFT_LINK_FD_CUDA | WEFT_LINK_FD_DMABUF,
    .probe = trace_probe,
    .create = trace_create,
    .destroy = trace_destroy,
    .address = trace_address,
    .connect = trace_connect,
    .ready = trace_ready,
    .disconnect = trace_disconnect,
    .send = trace_send,
    .recv = trace_recv,
    .progress = trace_progress,
    .wait = trace_wait,
    .wake = trace_wake,
    .abort = trace_abort,
    .register_memory = trace_register,
    .deregister_memory = trace_deregister,
    .key = trace_key,
    .map = trace_map,
    .features = trace_features,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.link/1",
    .name = "trace",
    .help = "shows every call of another transport in the job's trace",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.trace", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
