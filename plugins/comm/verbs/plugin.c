/* plugins/comm/verbs: RDMA over InfiniBand or RoCE. verbs.h lists the files. */
#include "verbs.h"

#include <errno.h>
#include <unistd.h>
#include <weft/device.h>

#define OPTION(name, kind, word, value, text, ...)                                                 \
    static const weft_option name = {.struct_size = sizeof name,                                   \
                                     .type = kind,                                                 \
                                     .key = word,                                                  \
                                     .dflt = value,                                                \
                                     .help = text,                                                 \
                                     __VA_ARGS__}

OPTION(devices, WEFT_OPT_STRING, "devices", "auto",
       "auto: the port with this rank's address; or up to 4 of NAME or NAME:PORT, over which "
       "connections are spread", );
OPTION(port, WEFT_OPT_AUTO_INT, "port", "auto", "port of a device; auto: the first that will do",
       .min = 1, .max = 255);
OPTION(gid, WEFT_OPT_STRING, "gid", "auto",
       "index of the address in the port's table; auto: this rank's own, RoCE v2 before v1", );
OPTION(qps, WEFT_OPT_INT, "qps", "1",
       "queue pairs a connection and device, over which long messages are cut", .min = 1, .max = 8);
OPTION(mtu, WEFT_OPT_CHOICE, "mtu", "auto", "bytes of a packet; auto: the port's",
       .choices = "auto|256|512|1024|2048|4096");
OPTION(timeout, WEFT_OPT_SECONDS, "timeout", "0.5",
       "until a packet that nobody answered is sent again; rounded up to 4.096 us times a power "
       "of two",
       .min = 1e-5, .max = 60);
OPTION(retry, WEFT_OPT_INT, "retry", "6",
       "how often it is sent again before the peer counts as gone", .min = 1, .max = 7);
OPTION(traffic_class, WEFT_OPT_INT, "traffic_class", "0",
       "traffic class of packets with a long address: DSCP * 4 on RoCE v2", .min = 0, .max = 255);
OPTION(service_level, WEFT_OPT_INT, "service_level", "0", "service level, or priority on RoCE",
       .min = 0, .max = 15);
OPTION(eager, WEFT_OPT_BYTES, "eager", "4K",
       "messages up to this go unasked into a slot at the receiver, which copies them", .min = 64,
       .max = SLOT_MAX);
OPTION(slots, WEFT_OPT_INT, "slots", "32", "such slots a connection", .min = 8, .max = SLOTS_MAX);
OPTION(max_inline, WEFT_OPT_BYTES, "inline", "128",
       "bytes that are handed to the NIC in the request itself, where it can", .min = 0,
       .max = 1024);

static const weft_option *const options[] = {
    &devices,       &port,          &gid,   &qps,   &mtu,        &timeout, &retry,
    &traffic_class, &service_level, &eager, &slots, &max_inline, NULL};

/* LEAST_LOCKED: bytes that a small job registers. A large job may still fail to register. */
enum { LEAST_LOCKED = 64 << 20, SCORE = 80, SCORE_HERE = 40 };

/* Does the driver of the NIC support dmabuf? A driver without support refuses before it looks at
 * the descriptor, which is invalid here. */
static bool takes_dmabuf(const verbs_api *api, const rail *on)
{
    struct ibv_pd *pd = api->reg_dmabuf_mr ? api->alloc_pd(on->context) : NULL;
    if (!pd)
        return false;
    struct ibv_mr *mr = api->reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
    bool knows = mr || (errno != EOPNOTSUPP && errno != EPROTONOSUPPORT);
    if (mr)
        api->dereg_mr(mr);
    api->dealloc_pd(pd);
    return knows;
}

/* A NIC reaches a GPU's memory by a dmabuf descriptor, or through a peer-memory driver. */
static weft_status reaches_cuda(verbs_module *m, const rail *on, uint32_t caps)
{
    bool exported = (caps & WEFT_DEV_EXPORT_DMABUF) != 0;
    if ((exported && takes_dmabuf(&m->api, on)) ||
        access("/sys/module/nvidia_peermem", F_OK) == 0 ||
        access("/sys/module/nv_peer_mem", F_OK) == 0)
        return WEFT_OK;
    return sockets_fail(m->host, WEFT_ABSENT,
                        "%s port %u needs dmabuf to reach a GPU's memory, which %s, or the module "
                        "nvidia_peermem, which is not loaded",
                        on->name, on->port,
                        exported ? "its driver does not support"
                                 : "the GPU's driver does not export");
}

static weft_status can_move(verbs_module *m, uint32_t caps)
{
    if ((caps & (WEFT_DEV_HOST_MEMORY | WEFT_DEV_CUDA_MEMORY)) == 0)
        return sockets_fail(
            m->host, WEFT_UNSUPPORTED,
            "verbs moves host memory or CUDA memory, and this device has other memory");
    if (!sockets_tls(m->host, "verbs"))
        return WEFT_UNSUPPORTED;
    return verbs_can_lock(m->host, LEAST_LOCKED);
}

static weft_status verbs_probe(void *module, const weft_conf *conf, const weft_link_group *group,
                               int32_t *score)
{
    verbs_module *m = module;
    verbs_options chosen;
    sockets_endpoint bound;
    bool known = group->bind_addr;
    rail found[RAILS];
    uint32_t n = 0;
    *score = 0;
    weft_status st = weft_check_args(m->host, group, sizeof *group, 0);
    if (st != WEFT_OK)
        return st;
    st = can_move(m, group->device_caps);
    if (st == WEFT_OK)
        st = verbs_load(m);
    if (st == WEFT_OK)
        st = verbs_read_options(m->host, conf, &chosen);
    if (st == WEFT_OK && known)
        st = sockets_parse(m->host, "verbs", group->bind_addr, &bound);
    if (st == WEFT_OK)
        st = verbs_rails(m->host, &m->api, &chosen, known ? &bound : NULL, found, &n);
    const bool found_any = st == WEFT_OK;
    for (uint32_t i = 0; found_any && i < n; i++) {
        if (st == WEFT_OK && (group->device_caps & WEFT_DEV_HOST_MEMORY) == 0)
            st = reaches_cuda(m, &found[i], group->device_caps);
        verbs_close_rail(&m->api, &found[i]);
    }
    if (st == WEFT_OK)
        *score = group->same_machine != 0 ? SCORE_HERE : SCORE;
    return WEFT_OK;
}

static weft_status verbs_open(const weft_host *host, void **module)
{
    verbs_module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for the verbs transport");
    m->host = host;
    *module = m;
    return WEFT_OK;
}

static void verbs_close(void *module)
{
    verbs_module *m = module;
    if (m)
        m->host->free(m->host->ctx, m);
}

/* --- the calls of the table: what is unknown is refused, the rest is verbs.h's --- */

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    const weft_status st = weft_check_args(l->net.host, args, sizeof *args, 0);
    return st != WEFT_OK
               ? st
               : verbs_connect(l, args->peer, args->channel, args->address, args->bytes, out);
}

static weft_status send_to(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                           uint32_t flags)
{
    return flags ? weft_refuse_unknown(c->link->net.host) : verbs_send(c, from, bytes, region);
}

static weft_status recv_from(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                             uint32_t flags)
{
    return flags ? weft_refuse_unknown(c->link->net.host) : verbs_recv(c, to, bytes, region);
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    return flags ? weft_refuse_unknown(c->link->net.host) : verbs_progress(c, sent, received);
}

static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    return flags ? weft_refuse_unknown(l->net.host) : verbs_wait(l, spin_us, timeout_us);
}

static weft_status register_memory(weft_link *l, const weft_memory *m, weft_region **out)
{
    const weft_status st = weft_check_args(l->net.host, m, sizeof *m, 0);
    return st != WEFT_OK ? st : verbs_register(l, m->base, m->bytes, m->fd, out);
}

static const weft_link_table table = {
    .struct_size = sizeof table,
    .channels = 0,
    .caps = WEFT_LINK_HOST | WEFT_LINK_CUDA | WEFT_LINK_REGISTER | WEFT_LINK_FD_DMABUF,
    .probe = verbs_probe,
    .create = verbs_create,
    .destroy = verbs_destroy,
    .address = verbs_address,
    .connect = connect_to,
    .ready = verbs_ready,
    .disconnect = verbs_disconnect,
    .send = send_to,
    .recv = recv_from,
    .progress = progress,
    .wait = wait_for,
    .wake = verbs_wake,
    .abort = verbs_abort,
    .register_memory = register_memory,
    .deregister_memory = verbs_deregister,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.link/1",
    .name = "verbs",
    .help = "RDMA over InfiniBand or RoCE",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.verbs", "0.1.0", "Apache-2.0", components, verbs_open, verbs_close);
