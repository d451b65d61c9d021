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
    (void)conf;
    *score = 0;
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

static const weft_link_table table = {
    .struct_size = sizeof table,
    .channels = 0,
    .caps = WEFT_LINK_HOST | WEFT_LINK_MAP | WEFT_LINK_LOCAL,
    .probe = shm_probe,
    .create = shm_create,
    .destroy = shm_destroy,
    .address = shm_address,
    .connect = shm_connect,
    .ready = shm_ready,
    .disconnect = shm_disconnect,
    .send = shm_send,
    .recv = shm_recv,
    .progress = shm_progress,
    .wait = shm_wait,
    .wake = shm_wake,
    .abort = shm_abort,
    .register_memory = shm_register,
    .deregister_memory = shm_deregister,
    .key = shm_key,
    .map = shm_map_region,
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
