/* plugins/comm/shm: shared-memory transport between ranks of one machine. shm.h lists the files. */
#include "shm.h"

#include <weft/device.h>

static const weft_option ring_option = {.struct_size = sizeof ring_option,
                                        .type = WEFT_OPT_BYTES,
                                        .key = "ring",
                                        .dflt = "1M",
                                        .help = "buffer of a connection each way, rounded up to a "
                                                "power of two",
                                        .min = RING_MIN,
                                        .max = RING_MAX};
static const weft_option *const options[] = {&ring_option, NULL};

static weft_status shm_probe(void *module, const weft_conf *conf, const weft_link_group *group,
                             int32_t *score)
{
    const weft_host *host = module;
    const weft_status st = weft_check_args(host, group, sizeof *group, 0);
    (void)conf;
    *score = 0;
    if (st != WEFT_OK)
        return st;
    if (group->same_machine == 0)
        (void)!shm_fail(host, WEFT_UNSUPPORTED,
                        "shm reaches ranks of one machine only, and the group is on several");
    else if ((group->device_caps & WEFT_DEV_HOST_MEMORY) == 0)
        (void)!shm_fail(host, WEFT_UNSUPPORTED,
                        "shm moves host memory only, and the device has its own");
    else
        *score = 50;
    return WEFT_OK;
}

static weft_status shm_open(const weft_host *host, void **module)
{
    *module = (void *)(uintptr_t)host; /* a link needs nothing else of the module */
    return WEFT_OK;
}

/* --- the calls of the table: what is unknown is refused, the rest is shm.h's --- */

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    const weft_status st = weft_check_args(l->host, args, sizeof *args, 0);
    return st != WEFT_OK
               ? st
               : shm_connect(l, args->peer, args->channel, args->address, args->bytes, out);
}

static weft_status send_to(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                           uint32_t flags)
{
    return flags ? weft_refuse_unknown(c->link->host) : shm_send(c, from, bytes, region);
}

static weft_status recv_from(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                             uint32_t flags)
{
    return flags ? weft_refuse_unknown(c->link->host) : shm_recv(c, to, bytes, region);
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    return flags ? weft_refuse_unknown(c->link->host) : shm_progress(c, sent, received);
}

static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    return flags ? weft_refuse_unknown(l->host) : shm_wait(l, spin_us, timeout_us);
}

static weft_status register_memory(weft_link *l, const weft_memory *m, weft_region **out)
{
    const weft_status st = weft_check_args(l->host, m, sizeof *m, 0);
    return st != WEFT_OK ? st : shm_register(l, m->base, m->bytes, m->fd, out);
}

static weft_status map(weft_link *l, uint32_t rank, const void *key, uint64_t bytes, uint32_t flags,
                       void **base)
{
    return flags ? weft_refuse_unknown(l->host) : shm_map_region(l, rank, key, bytes, base);
}

static const weft_link_table table = {
    .struct_size = sizeof table,
    .channels = 0,
    .caps = WEFT_LINK_HOST | WEFT_LINK_MAP | WEFT_LINK_LOCAL,
    .probe = shm_probe,
    .create = shm_create,
    .destroy = shm_destroy,
    .address = shm_address,
    .connect = connect_to,
    .ready = shm_ready,
    .disconnect = shm_disconnect,
    .send = send_to,
    .recv = recv_from,
    .progress = progress,
    .wait = wait_for,
    .wake = shm_wake,
    .abort = shm_abort,
    .register_memory = register_memory,
    .deregister_memory = shm_deregister,
    .key = shm_key,
    .map = map,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.link/1",
    .name = "shm",
    .help = "shared memory, between ranks of one machine",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.shm", "0.1.0", "Apache-2.0", components, shm_open, NULL);
