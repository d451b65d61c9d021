/* throttle: another transport at a limited rate, to see how a job fares on a slower network.
 *
 * A wrapper: it opens the transport that [comm.acme.throttle] inner names through
 * weft.host.component/1 and passes each call on. Only the end of a send is held back: at `rate`
 * bytes a second, the sends of a link are over one after the other, and progress() counts a send
 * when its time has come, or when the inner transport has done it if that is later. So memory is
 * in use for as long as on such a network, and nothing is copied. Mapping and writing the memory of
 * a peer would pass by the limit: these capabilities are taken away.
 *
 * The ranks compare their rates through weft.host.kv/1, and the time that sends were held back for
 * is the metric acme.throttle.waited_ms (weft.host.metrics/1).
 *
 *   [comm]
 *   plugin = acme.throttle
 *   [comm.acme.throttle]
 *   inner = tcp
 *   rate = 10M
 */
#include <weft/host.h>
#include <weft/link.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SENDS 256u /* of a connection that are not over; a link must take 64 */

typedef struct module {
    const weft_host *host;
    const weft_host_metrics *meter; /* NULL: this host has none */
    const weft_host_kv *kv;
    uint32_t waited, links; /* number of the metric; links that were created */
} module;

typedef struct sending {
    uint64_t due, done; /* ns: of the limit; when the inner transport had done it, 0: not yet */
} sending;

struct weft_conn {
    weft_link *link;
    weft_conn *inner, *next;
    uint64_t posted, done, over; /* sends; [over, posted) are in the ring, [over, done) are done */
    sending ring[SENDS];
};

struct weft_link {
    const module *m;
    const weft_link_table *table; /* the inner link, and its own object */
    weft_link *inner;
    weft_conn *conns;
    double ns_per_byte;
    uint64_t free_at; /* ns: the sends before are over */
};

struct weft_region {
    weft_link *link;
    weft_region *inner;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static weft_status fail(const weft_host *host, weft_status st, const char *text)
{
    return (host->fail)(host->ctx, st, text);
}

/* --- the inner transport --- */

static weft_status open_inner(const module *m, const weft_conf *conf, weft_component_ref *ref)
{
    const weft_host_component *components =
        (const weft_host_component *)(m->host->iface)(m->host->ctx, "weft.host.component/1");
    const weft_component_args args = {sizeof args, 0, "weft.link/1",
                                      conf->text(conf->ctx, "inner")};
    if (!components)
        return fail(m->host, WEFT_UNSUPPORTED,
                    "this program does not serve weft.host.component/1, by which the inner "
                    "transport is opened");
    if (!args.name || !args.name[0])
        return fail(m->host, WEFT_USAGE,
                    "comm.acme.throttle.inner is empty: name the transport to slow down");
    *ref = (weft_component_ref){.struct_size = sizeof *ref};
    return components->open(components->ctx, &args, ref);
}

static weft_status throttle_features(void *mod, const weft_conf *conf, uint64_t *caps,
                                     uint32_t *channels)
{
    weft_component_ref ref;
    if (!conf->text(conf->ctx, "inner")[0]) /* `auto` asks all transports: probe() says why not */
        return WEFT_OK;
    const weft_status st = open_inner((const module *)mod, conf, &ref);
    if (st != WEFT_OK)
        return st;
    *caps &= ((const weft_link_table *)ref.table)->caps;
    *channels = ((const weft_link_table *)ref.table)->channels;
    return WEFT_OK;
}

static weft_status throttle_probe(void *mod, const weft_conf *conf, const weft_link_group *group,
                                  int32_t *score)
{
    weft_component_ref ref;
    *score = 0;
    weft_status st = open_inner((const module *)mod, conf, &ref);
    if (st == WEFT_OK)
        st = ((const weft_link_table *)ref.table)->probe(ref.module, ref.conf, group, score);
    *score = *score > 0; /* `auto` prefers the inner transport itself */
    return st;
}

/* Ranks with other rates would wait for each other, and nobody would know why. */
static weft_status compare_rates(module *m, uint64_t rate, uint32_t ranks)
{
    char key[32], text[160];
    weft_status st = WEFT_OK;
    uint64_t *all = (uint64_t *)weft_new(m->host, ranks * sizeof *all, &st);
    if (!all)
        return st;
    snprintf(key, sizeof key, "rate of link %u", m->links++);
    const weft_kv_gather args = {sizeof args, 0, key, NULL, 0, 0, &rate, sizeof rate, all};
    st = m->kv->all_gather(m->kv->ctx, &args);
    for (uint32_t r = 0; st == WEFT_OK && r < ranks; r++) {
        snprintf(text, sizeof text, "rank %u has comm.acme.throttle.rate = %llu, this rank %llu", r,
                 (unsigned long long)all[r], (unsigned long long)rate);
        st = all[r] == rate ? WEFT_OK : fail(m->host, WEFT_USAGE, text);
    }
    (m->host->free)(m->host->ctx, all);
    return st;
}

static weft_status throttle_create(void *mod, const weft_link_args *args, weft_link **out)
{
    module *m = (module *)mod;
    const weft_conf *conf = args->conf;
    const uint64_t rate = (uint64_t)conf->integer(conf->ctx, "rate");
    weft_component_ref ref;
    weft_status st = weft_check_args(m->host, args, sizeof *args, 0);
    if (st == WEFT_OK)
        st = open_inner(m, conf, &ref);
    if (st == WEFT_OK && m->kv)
        st = compare_rates(m, rate, args->ranks);
    weft_link *l = (weft_link *)weft_new(m->host, sizeof *l, &st);
    if (!l)
        return st;
    weft_link_args inner = *args;
    inner.conf = ref.conf;
    *l = (weft_link){
        .m = m, .table = (const weft_link_table *)ref.table, .ns_per_byte = 1e9 / (double)rate};
    st = l->table->create(ref.module, &inner, &l->inner);
    if (st != WEFT_OK)
        (m->host->free)(m->host->ctx, l);
    else
        *out = l;
    return st;
}

static void throttle_disconnect(weft_conn *c)
{
    if (!c)
        return;
    weft_link *l = c->link;
    weft_conn **at = &l->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    l->table->disconnect(c->inner);
    (l->m->host->free)(l->m->host->ctx, c);
}

static void throttle_destroy(weft_link *l)
{
    if (!l)
        return;
    while (l->conns)
        throttle_disconnect(l->conns);
    l->table->destroy(l->inner);
    (l->m->host->free)(l->m->host->ctx, l);
}

static weft_status throttle_address(weft_link *l, void *out, uint64_t *bytes)
{
    return l->table->address(l->inner, out, bytes);
}

static weft_status throttle_connect(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    weft_status st = WEFT_OK;
    weft_conn *c = (weft_conn *)weft_new(l->m->host, sizeof *c, &st);
    if (!c)
        return st;
    c->link = l;
    st = l->table->connect(l->inner, args, &c->inner);
    if (st != WEFT_OK) {
        (l->m->host->free)(l->m->host->ctx, c);
        return st;
    }
    c->next = l->conns;
    l->conns = c;
    *out = c;
    return st;
}

static weft_status throttle_ready(weft_conn *c)
{
    return c->link->table->ready(c->inner);
}

/* --- memory --- */

static weft_status throttle_register(weft_link *l, const weft_memory *memory, weft_region **out)
{
    weft_status st = WEFT_OK;
    weft_region *r = (weft_region *)weft_new(l->m->host, sizeof *r, &st);
    if (!r)
        return st;
    r->link = l;
    st = l->table->register_memory(l->inner, memory, &r->inner);
    if (st != WEFT_OK)
        (l->m->host->free)(l->m->host->ctx, r);
    else
        *out = r;
    return st;
}

static void throttle_deregister(weft_region *r)
{
    if (!r)
        return;
    r->link->table->deregister_memory(r->inner);
    (r->link->m->host->free)(r->link->m->host->ctx, r);
}

/* --- messages --- */

static weft_status throttle_send(weft_conn *c, const void *from, uint64_t bytes,
                                 weft_region *region, uint32_t flags)
{
    weft_link *l = c->link;
    if (c->posted - c->over == SENDS)
        return WEFT_BUSY;
    const weft_status st =
        l->table->send(c->inner, from, bytes, region ? region->inner : NULL, flags);
    if (st != WEFT_OK)
        return st;
    const uint64_t now = now_ns();
    l->free_at = (l->free_at > now ? l->free_at : now) + (uint64_t)((double)bytes * l->ns_per_byte);
    c->ring[c->posted++ % SENDS] = (sending){l->free_at, 0};
    return WEFT_OK;
}

static weft_status throttle_recv(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                                 uint32_t flags)
{
    return c->link->table->recv(c->inner, to, bytes, region ? region->inner : NULL, flags);
}

static weft_status throttle_progress(weft_conn *c, uint32_t flags, uint64_t *sent,
                                     uint64_t *received)
{
    const module *m = c->link->m;
    uint64_t done = 0;
    const weft_status st = c->link->table->progress(c->inner, flags, &done, received);
    if (st != WEFT_OK)
        return st;
    const uint64_t now = c->over < c->posted ? now_ns() : 0;
    for (; c->done < done; c->done++)
        c->ring[c->done % SENDS].done = now;
    for (; c->over < c->done && c->ring[c->over % SENDS].due <= now; c->over++) {
        const sending *s = &c->ring[c->over % SENDS];
        if (s->done < s->due && m->meter)
            m->meter->add(m->meter->ctx, m->waited, (double)(now - s->done) * 1e-6);
    }
    *sent = c->over;
    return st;
}

/* A send that is only held back wakes nobody, so the sleep ends when its time comes. */
static weft_status throttle_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us,
                                 uint32_t flags)
{
    const uint64_t now = now_ns();
    for (const weft_conn *c = l->conns; c; c = c->next) {
        const uint64_t due = c->ring[c->over % SENDS].due;
        if (c->over == c->done)
            continue;
        if (due <= now)
            return WEFT_OK;
        if ((due - now) / 1000 < timeout_us)
            timeout_us = (uint32_t)((due - now) / 1000);
    }
    return l->table->wait(l->inner, spin_us < timeout_us ? spin_us : timeout_us, timeout_us, flags);
}

static void throttle_wake(weft_link *l)
{
    l->table->wake(l->inner);
}

static void throttle_abort(weft_link *l)
{
    l->table->abort(l->inner);
}

/* --- the plugin --- */

static weft_status throttle_open(const weft_host *host, void **out)
{
    weft_status st = WEFT_OK;
    module *m = (module *)weft_new(host, sizeof *m, &st);
    if (!m)
        return st;
    m->host = host;
    m->kv = (const weft_host_kv *)(host->iface)(host->ctx, "weft.host.kv/1");
    m->meter = (const weft_host_metrics *)(host->iface)(host->ctx, "weft.host.metrics/1");
    if (m->meter)
        st = m->meter->declare(m->meter->ctx, "acme.throttle.waited_ms", "ms", WEFT_METRICS_SUM, 0,
                               &m->waited);
    if (st != WEFT_OK)
        (host->free)(host->ctx, m);
    else
        *out = m;
    return st;
}

static void throttle_close(void *mod)
{
    module *m = (module *)mod;
    if (m)
        (m->host->free)(m->host->ctx, m);
}

static const weft_option inner = {.struct_size = sizeof inner,
                                  .type = WEFT_OPT_STRING,
                                  .key = "inner",
                                  .dflt = "",
                                  .help = "the transport to slow down, such as tcp"};
static const weft_option rate = {.struct_size = sizeof rate,
                                 .type = WEFT_OPT_BYTES,
                                 .key = "rate",
                                 .dflt = "100M",
                                 .help = "bytes a second that a link sends at most",
                                 .min = 1,
                                 .max = 1e15};
static const weft_option *const options[] = {&inner, &rate, NULL};

static const weft_link_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_LINK_HOST | WEFT_LINK_CUDA | WEFT_LINK_REGISTER | WEFT_LINK_LOCAL |
            WEFT_LINK_FD_CUDA | WEFT_LINK_FD_DMABUF,
    .probe = throttle_probe,
    .create = throttle_create,
    .destroy = throttle_destroy,
    .address = throttle_address,
    .connect = throttle_connect,
    .ready = throttle_ready,
    .disconnect = throttle_disconnect,
    .send = throttle_send,
    .recv = throttle_recv,
    .progress = throttle_progress,
    .wait = throttle_wait,
    .wake = throttle_wake,
    .abort = throttle_abort,
    .register_memory = throttle_register,
    .deregister_memory = throttle_deregister,
    .features = throttle_features,
};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.link/1",
                                         .name = "acme.throttle",
                                         .help = "another transport at a limited rate",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("com.acme.throttle", "1.0", "Apache-2.0", components, throttle_open, throttle_close);
