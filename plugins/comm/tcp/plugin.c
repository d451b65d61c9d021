/* plugins/comm/tcp: messages over TCP. It reaches any machine that a route leads to, and works
 * everywhere; it is the slowest transport. tcp.h lists the files. */
#include "tcp.h"

#include <weft/device.h>

static const weft_option encrypt = {.struct_size = sizeof encrypt,
                                    .type = WEFT_OPT_BOOL,
                                    .key = "encrypt",
                                    .dflt = "off",
                                    .help = "payload through TLS too; the handshake always is"};
static const weft_option sndbuf = {.struct_size = sizeof sndbuf,
                                   .type = WEFT_OPT_BYTES,
                                   .key = "sndbuf",
                                   .dflt = "0",
                                   .help =
                                       "send buffer of a socket; 0: the system's choice, or on one "
                                       "machine what fits the caches",
                                   .max = 1 << 30};
static const weft_option rcvbuf = {.struct_size = sizeof rcvbuf,
                                   .type = WEFT_OPT_BYTES,
                                   .key = "rcvbuf",
                                   .dflt = "0",
                                   .help = "receive buffer of a socket; 0 leaves it to the system",
                                   .max = 1 << 30};
static const weft_option *const options[] = {&encrypt, &sndbuf, &rcvbuf, NULL};

static weft_status tcp_probe(void *module, const weft_conf *conf, const weft_link_group *group,
                             int32_t *score)
{
    tcp_module *m = module;
    (void)conf;
    *score = 0;
    if ((group->device_caps & WEFT_DEV_HOST_MEMORY) == 0)
        (void)!sockets_fail(m->host, WEFT_UNSUPPORTED,
                            "tcp moves host memory only, and this device has other memory");
    else if (sockets_tls(m->host, "tcp"))
        *score = 10;
    return WEFT_OK;
}

static weft_status tcp_open(const weft_host *host, void **module)
{
    tcp_module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for the tcp transport");
    m->host = host;
    *module = m;
    return WEFT_OK;
}

static void tcp_close(void *module)
{
    tcp_module *m = module;
    if (m)
        m->host->free(m->host->ctx, m);
}

static const weft_link_table table = {
    .struct_size = sizeof table,
    .channels = 0,
    .caps = WEFT_LINK_HOST,
    .probe = tcp_probe,
    .create = tcp_create,
    .destroy = tcp_destroy,
    .address = tcp_address,
    .connect = tcp_connect,
    .ready = tcp_ready,
    .disconnect = tcp_disconnect,
    .send = tcp_send,
    .recv = tcp_recv,
    .progress = tcp_progress,
    .wait = tcp_wait,
    .wake = tcp_wake,
    .abort = tcp_abort,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.link/1",
    .name = "tcp",
    .help = "sockets; reaches any machine that a route leads to",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.tcp", "0.1.0", "Apache-2.0", components, tcp_open, tcp_close);
