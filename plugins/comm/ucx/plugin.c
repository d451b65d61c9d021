/* plugins/comm/ucx: messages through UCX (libucp), over InfiniBand, RoCE, shared memory or TCP, as
 * the site has set it up. ucx.h lists the files. */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>
#include <weft/device.h>

static const weft_option tls = {.struct_size = sizeof tls,
                                .type = WEFT_OPT_STRING,
                                .key = "tls",
                                .dflt = "auto",
                                .help = "UCX's transports, as UCX_TLS has them (rc,sm); auto: "
                                        "UCX_TLS, or all but tcp, which authenticates nobody"};
static const weft_option devices = {.struct_size = sizeof devices,
                                    .type = WEFT_OPT_STRING,
                                    .key = "devices",
                                    .dflt = "auto",
                                    .help = "devices, as UCX_NET_DEVICES has them (mlx5_0:1); "
                                            "auto: UCX_NET_DEVICES, or UCX's choice"};
static const weft_option hooks = {.struct_size = sizeof hooks,
                                  .type = WEFT_OPT_BOOL,
                                  .key = "memory_hooks",
                                  .dflt = "off",
                                  .help = "let UCX patch the functions of this process that unmap "
                                          "memory, so that it may keep RDMA registrations"};
static const weft_option *const options[] = {&tls, &devices, &hooks, NULL};

/* Above verbs (80) where the site has set UCX up for its RDMA devices, else below all transports of
 * weft, of which tcp (10) is the last. */
enum { SCORE_TUNED = 85, SCORE_LAST = 5 };

static bool is_set(const weft_conf *conf, const char *key)
{
    const char *value = conf->text(conf->ctx, key);
    return value && value[0] != '\0' && strcmp(value, "auto") != 0;
}

static int32_t rank_of(const ucx_module *m, const weft_conf *conf, const ucx_found *found,
                       bool same_machine)
{
    const bool tuned = is_set(conf, "tls") || is_set(conf, "devices") || getenv("UCX_TLS") ||
                       getenv("UCX_NET_DEVICES");
    if (found->rdma || found->tcp || same_machine)
        return found->rdma && tuned && !same_machine ? SCORE_TUNED : SCORE_LAST;
    (void)!sockets_fail(m->host, WEFT_ABSENT,
                        "UCX finds no RDMA device here and may not use tcp (it has %s), and the "
                        "ranks are on several machines; [comm.ucx] tls=tcp allows it",
                        found->names);
    return 0;
}

static weft_status can_move(ucx_module *m, uint32_t caps)
{
    if ((caps & WEFT_DEV_HOST_MEMORY) == 0)
        return sockets_fail(m->host, WEFT_UNSUPPORTED,
                            "ucx moves host memory only, and this device has other memory");
    return sockets_tls(m->host, "ucx") ? WEFT_OK : WEFT_UNSUPPORTED;
}

static weft_status ucx_probe(void *module, const weft_conf *conf, const weft_link_group *group,
                             int32_t *score)
{
    ucx_module *m = module;
    sockets_endpoint bound;
    ucp_context_h context = NULL;
    ucx_found found;
    const bool known = group->bind_addr;
    *score = 0;
    weft_status st = weft_check_args(m->host, group, sizeof *group, 0);
    if (st != WEFT_OK)
        return st;
    st = can_move(m, group->device_caps);
    if (st == WEFT_OK && known)
        st = sockets_parse(m->host, "ucx", group->bind_addr, &bound);
    if (st == WEFT_OK)
        st = ucx_check_limits(m);
    if (st == WEFT_OK)
        st = ucx_load(m, conf);
    if (st == WEFT_OK)
        st = ucx_open_context(m, conf, known ? &bound : NULL, 2, &context, &found);
    if (st == WEFT_OK)
        *score = rank_of(m, conf, &found, group->same_machine != 0);
    if (context)
        m->api.cleanup(context);
    return WEFT_OK;
}

static weft_status ucx_open(const weft_host *host, void **module)
{
    ucx_module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for the ucx transport");
    m->host = host;
    *module = m;
    return WEFT_OK;
}

static void ucx_close(void *module)
{
    ucx_module *m = module;
    if (!m)
        return;
    ucx_log_end(m);
    m->host->free(m->host->ctx, m);
}

/* --- the calls of the table: what is unknown is refused, the rest is ucx.h's --- */

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    const weft_status st = weft_check_args(l->net.host, args, sizeof *args, 0);
    return st != WEFT_OK
               ? st
               : ucx_connect(l, args->peer, args->channel, args->address, args->bytes, out);
}

static weft_status send_to(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                           uint32_t flags)
{
    (void)region;
    return flags ? weft_refuse_unknown(c->link->net.host) : ucx_send(c, from, bytes);
}

static weft_status recv_from(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                             uint32_t flags)
{
    (void)region;
    return flags ? weft_refuse_unknown(c->link->net.host) : ucx_recv(c, to, bytes);
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    return flags ? weft_refuse_unknown(c->link->net.host) : ucx_progress(c, sent, received);
}

static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    return flags ? weft_refuse_unknown(l->net.host) : ucx_wait(l, spin_us, timeout_us);
}

static const weft_link_table table = {
    .struct_size = sizeof table,
    .channels = 0,
    .caps = WEFT_LINK_HOST,
    .probe = ucx_probe,
    .create = ucx_create,
    .destroy = ucx_destroy,
    .address = ucx_address,
    .connect = connect_to,
    .ready = ucx_ready,
    .disconnect = ucx_disconnect,
    .send = send_to,
    .recv = recv_from,
    .progress = progress,
    .wait = wait_for,
    .wake = ucx_wake,
    .abort = ucx_abort,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.link/1",
    .name = "ucx",
    .help = "UCX, as the site has set it up: RDMA, shared memory, TCP",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.ucx", "0.1.0", "Apache-2.0", components, ucx_open, ucx_close);
