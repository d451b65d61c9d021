/* link.c: the link of one rank: how tcp uses sockets, options, sleeping. */
#include "tcp.h"

static const sockets_transport transport = {
    .name = "tcp",
    .address_magic = "wft1",
    .message_magic = "wftH",
    .code_options = 1,
    .code_unexpected = 2,
    .options_differ = "[comm.tcp] encrypt must be the same on all ranks",
};

/* On one machine a small buffer suffices, and what fits the caches is copied twice as fast: the
 * ranks share 1 MiB. */
static int local_send_buffer(uint32_t ranks)
{
    int share = (1 << 20) / (int)(ranks > 1 ? ranks : 2);
    return share < 65536 ? 65536 : share;
}

weft_status tcp_create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = ((tcp_module *)module)->host;
    const weft_conf *conf = args->conf;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for a link");
    bool encrypt = conf->integer(conf->ctx, "encrypt") != 0;
    l->net.hello_code = encrypt;
    l->net.keep_tls = encrypt;
    l->net.one_machine = args->local_ranks == args->ranks;
    l->net.send_buffer = (int)conf->integer(conf->ctx, "sndbuf");
    if (l->net.send_buffer == 0 && l->net.one_machine)
        l->net.send_buffer = local_send_buffer(args->local_ranks);
    l->net.receive_buffer = (int)conf->integer(conf->ctx, "rcvbuf");
    st = sockets_open(&l->net, host, &transport, args);
    if (st != WEFT_OK) {
        tcp_destroy(l);
        return st;
    }
    *out = l;
    return WEFT_OK;
}

void tcp_destroy(weft_link *l)
{
    if (!l)
        return;
    while (tcp_first(l))
        tcp_disconnect(tcp_first(l));
    sockets_close(&l->net);
    l->net.host->free(l->net.host->ctx, l);
}

/* Would a call on some connection find work now? */
static bool has_work(weft_link *l)
{
    if (sockets_has_work(&l->net))
        return true;
    for (const weft_conn *c = tcp_first(l); c; c = tcp_next(c))
        if (tcp_can_move(c))
            return true;
    return false;
}

weft_status tcp_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    if (!has_work(l)) {
        uint64_t until = spin_us > 0 ? sockets_now_us() + spin_us : 0;
        do {
            if (sockets_events(&l->net, 0) > 0 && has_work(l))
                return WEFT_OK;
        } while (until > 0 && sockets_now_us() < until);
        uint32_t max = sockets_pause_us(&l->net);
        sockets_events(&l->net, timeout_us < max ? timeout_us : max);
    }
    return sockets_link_usable(&l->net);
}

void tcp_wake(weft_link *l)
{
    sockets_wake(&l->net);
}

void tcp_abort(weft_link *l)
{
    sockets_abort(&l->net);
}
