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
    const weft_status st = weft_check_args(m->host, group, sizeof *group, 0);
    (void)conf;
    *score = 0;
    if (st != WEFT_OK)
        return st;
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

/* --- the calls of the table: what is unknown is refused, the rest is tcp.h's --- */

static weft_status connect_to(weft_link *l, const weft_conn_args *args, weft_conn **out)
{
    const weft_status st = weft_check_args(l->net.host, args, sizeof *args, 0);
    return st != WEFT_OK
               ? st
               : tcp_connect(l, args->peer, args->channel, args->address, args->bytes, out);
}

static weft_status send_to(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                           uint32_t flags)
{
    return flags ? weft_refuse_unknown(c->peer.link->host) : tcp_send(c, from, bytes, region);
}

static weft_status recv_from(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                             uint32_t flags)
{
    return flags ? weft_refuse_unknown(c->peer.link->host) : tcp_recv(c, to, bytes, region);
}

static weft_status progress(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received)
{
    return flags ? weft_refuse_unknown(c->peer.link->host) : tcp_progress(c, sent, received);
}

static weft_status wait_for(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags)
{
    return flags ? weft_refuse_unknown(l->net.host) : tcp_wait(l, spin_us, timeout_us);
}

static const weft_link_table table = {
    .struct_size = sizeof table,
    .channels = 0,
    .caps = WEFT_LINK_HOST,
    .probe = tcp_probe,
    .create = tcp_create,
    .destroy = tcp_destroy,
    .address = tcp_address,
    .connect = connect_to,
    .ready = tcp_ready,
    .disconnect = tcp_disconnect,
    .send = send_to,
    .recv = recv_from,
    .progress = progress,
    .wait = wait_for,
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
