/* plugins/comm/nccl: collectives by NVIDIA's NCCL library, behind weft.coll/1.
 *
 * The library and the driver are opened at first use. NCCL's own environment variables apply as
 * usual; the options that users need are keys of [comm.nccl]. */
#include "comm.h"

#include <stdio.h>
#include <stdlib.h>

#define SCORE 90

static const weft_option interface = {
    sizeof interface,
    WEFT_OPT_STRING,
    "interface",
    "",
    "network interfaces between machines, as NCCL_SOCKET_IFNAME has them; empty: NCCL chooses",
    NULL,
    0,
    0};
static const weft_option net = {sizeof net,
                                WEFT_OPT_STRING,
                                "net",
                                "",
                                "network plugin by name (IB, Socket); empty: NCCL chooses",
                                NULL,
                                0,
                                0};
static const weft_option min_ctas = {sizeof min_ctas,
                                     WEFT_OPT_INT,
                                     "min_ctas",
                                     "0",
                                     "fewest thread blocks of a collective; 0: NCCL's",
                                     NULL,
                                     0,
                                     64};
static const weft_option max_ctas = {
    sizeof max_ctas,
    WEFT_OPT_INT,
    "max_ctas",
    "0",
    "most thread blocks of a collective, which computation lacks meanwhile; 0: NCCL's",
    NULL,
    0,
    64};
static const weft_option traffic_class = {sizeof traffic_class,
                                          WEFT_OPT_INT,
                                          "traffic_class",
                                          "0",
                                          "traffic class of packets between machines; 0: NCCL's",
                                          NULL,
                                          0,
                                          255};
static const weft_option *const options[] = {&interface, &net,           &min_ctas,
                                             &max_ctas,  &traffic_class, NULL};

/* Ranks of this machine may not share a GPU, unless NCCL is told that they are on different
 * hosts. */
static weft_status check_sharing(const nccl_module *m, int gpus)
{
    const char *here = getenv("LOCAL_WORLD_SIZE");
    long ranks = here ? strtol(here, NULL, 10) : 1;
    if (ranks <= gpus || getenv("NCCL_HOSTID"))
        return WEFT_OK;
    return nccl_fail(m, WEFT_UNSUPPORTED,
                     "%ld ranks share %d GPU%s on this machine, and NCCL needs one for each rank",
                     ranks, gpus, gpus == 1 ? "" : "s");
}

static weft_status nccl_probe(void *module, const weft_conf *conf, uint32_t caps, int32_t *score)
{
    nccl_module *m = module;
    int gpus = 0;
    *score = 0;
    weft_status st = caps & WEFT_DEV_CUDA_MEMORY
                         ? nccl_load(m)
                         : nccl_fail(m, WEFT_UNSUPPORTED,
                                     "nccl transfers memory of NVIDIA GPUs only, and the device "
                                     "is not one");
    if (st == WEFT_OK && (m->driver.cuInit(0) || m->driver.cuDeviceGetCount(&gpus) || !gpus))
        st = nccl_fail(m, WEFT_ABSENT, "the NVIDIA driver finds no GPU");
    if (st == WEFT_OK)
        st = check_sharing(m, gpus);
    if (st != WEFT_OK)
        return WEFT_OK; /* score 0; the reason is recorded */
    const char *names = conf->text(conf->ctx, "interface");
    if (names && *names) /* NCCL reads it when the first communicator is opened */
        setenv("NCCL_SOCKET_IFNAME", names, 1);
    char text[64];
    snprintf(text, sizeof text, "NCCL %d.%d.%d", m->version / 10000, m->version / 100 % 100,
             m->version % 100);
    m->host->log(m->host->ctx, WEFT_LOG_INFO, text);
    *score = SCORE;
    return WEFT_OK;
}

static const weft_coll_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_COLL_STREAM,
    .probe = nccl_probe,
    .id = comm_id,
    .open = comm_open,
    .ready = comm_ready,
    .close = comm_close,
    .register_memory = comm_register,
    .begin = comm_begin,
    .end = comm_end,
    .call = comm_call,
    .health = comm_health,
    .abort = comm_abort,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.coll/1",
    .name = "nccl",
    .help = "NVIDIA's collectives between GPUs, ordered on their streams",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};

static weft_status nccl_open(const weft_host *host, void **module)
{
    nccl_module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for nccl");
    m->host = host;
    *module = m;
    return WEFT_OK;
}

static void nccl_close(void *module)
{
    nccl_module *m = module;
    if (m)
        m->host->free(m->host->ctx, m);
}

WEFT_PLUGIN("weft.nccl", "0.1.0", "Apache-2.0", components, nccl_open, nccl_close);
