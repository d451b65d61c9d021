/* resolve/component.c: components that other components open by name ("weft.host.component/1"):
 * transports that wrappers wrap, and tokenizers of sources that read text; and what a link can do
 * with its options.
 *
 * A wrapper opens its inner component in the middle of a job's set-up. So the inner one's options
 * are added and checked then, and its module is opened; the host closes modules in the reverse
 * order, the inner one's after the wrapper's. */
#include "resolve/internal.h"

#include "base/err.h"
#include "base/sized.h"
#include "host/call.h"

#include <string.h>
#include <weft/host.h>
#include <weft/link.h>

typedef struct component_server {
    weft_host_component table;
    resolve_state r;
    uint32_t depth; /* of opens within opens */
} component_server;

/* A chain of wrappers that is longer is a circle: each link of it asks for the next. */
#define MAX_DEPTH 8u

static const char tokenizer_iface[] = "weft.tokenizer/1";

static weft_status take_args(const weft_component_args *args, const weft_component_ref *out,
                             weft_component_args *a)
{
    static const char call[] = "component.open";
    weft_status st = sized_take(call, args, a, sizeof *a, 0);
    if (st != WEFT_OK)
        return st;
    if (!a->iface || !a->name || !out)
        return err_fail(WEFT_USAGE, "%s(): %s is NULL", call,
                        !a->iface  ? "iface"
                        : !a->name ? "name"
                                   : "out");
    return sized_check_out(call, out);
}

/* Add the keys of the component's section, which the wrapper's job may have set, and check them. */
static weft_status open_transport(component_server *s, const char *const *ifaces, const char *name,
                                  weft_component_ref *ref)
{
    const host_component *c;
    weft_status st = host_find(s->r.spec->host, "comm", name, ifaces, &c);
    if (st == WEFT_OK)
        st = resolve_transport_keys(&s->r, c);
    if (st == WEFT_OK)
        st = config_check(s->r.cfg);
    if (st == WEFT_OK)
        st = host_open(s->r.spec->host, c);
    if (st != WEFT_OK)
        return st;
    ref->conf = resolve_transport_conf(&s->r, c);
    ref->table = c->table;
    ref->module = c->module;
    return strcmp(c->iface, resolve_ifaces[0]) ? WEFT_OK : resolve_link_features(c, ref->conf);
}

static weft_status open_tokenizer(component_server *s, const char *name, weft_component_ref *ref)
{
    const host_component *c;
    config *cfg = s->r.cfg;
    weft_status st = resolve_find(&s->r, "data.tokenizer", name, &c);
    if (st == WEFT_OK)
        st = config_check(cfg);
    if (st == WEFT_OK)
        st = host_use(s->r.spec->host, c);
    if (st == WEFT_OK)
        st = host_open(s->r.spec->host, c);
    if (st != WEFT_OK)
        return st;
    ref->conf = config_conf(cfg, "tokenizer", c->own);
    ref->table = c->table;
    ref->module = c->module;
    return WEFT_OK;
}

static weft_status open_component(void *ctx, const weft_component_args *args,
                                  weft_component_ref *out)
{
    component_server *s = ctx;
    weft_component_args a = {0};
    weft_component_ref ref = {.struct_size = sizeof ref};
    weft_status st = take_args(args, out, &a);
    if (st != WEFT_OK)
        return st;
    const bool text = !strcmp(a.iface, tokenizer_iface);
    if (!text && strcmp(a.iface, resolve_ifaces[0]) && strcmp(a.iface, resolve_ifaces[1]))
        return err_fail(WEFT_UNSUPPORTED,
                        "component.open(): %s '%s': this version of weft opens %s, %s and %s for "
                        "other plugins",
                        a.iface, a.name, resolve_ifaces[0], resolve_ifaces[1], tokenizer_iface);
    if (s->depth == MAX_DEPTH)
        return err_fail(WEFT_USAGE,
                        "component.open(): '%s' is opened by %u components, one inside the other; "
                        "name an inner component that does not lead back to the wrapper",
                        a.name, MAX_DEPTH);
    s->depth++;
    st = text ? open_tokenizer(s, a.name, &ref)
              : open_transport(s, (const char *const[]){a.iface, NULL}, a.name, &ref);
    s->depth--;
    if (st == WEFT_OK)
        weft_give(out, &ref);
    else if (!s->depth)
        err_context("opening the inner component '%s' of %s", a.name, a.iface);
    return st;
}

void resolve_serve_components(resolve_state *r)
{
    component_server *s = pool_alloc(&r->spec->pool, sizeof *s);
    *s = (component_server){.table = {sizeof s->table, 0, s, open_component}, .r = *r};
    host_serve(r->spec->host, "weft.host.component/1", &s->table);
}

weft_status resolve_link_features(const host_component *c, const weft_conf *conf)
{
    weft_link_table *own = (weft_link_table *)(uintptr_t)c->table; /* the host's copy */
    uint64_t caps = own->caps;
    uint32_t channels = own->channels;
    if (!own->features)
        return WEFT_OK;
    weft_status st = PLUGIN_CALL(own, features, c->module, conf, &caps, &channels);
    if (st == WEFT_OK && caps & ~own->caps)
        return err_fail(WEFT_USAGE,
                        "transport %s: its features() adds the capabilities 0x%llx to those of its "
                        "table; it may only take some away",
                        c->name, (unsigned long long)(caps & ~own->caps));
    if (st == WEFT_OK) {
        own->caps = caps;
        own->channels = channels;
    }
    return st;
}
