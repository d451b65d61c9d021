/* link.c: the link of one rank: its UCX worker, how ucx uses sockets, sleeping, its end.
 *
 * Before it sleeps, a link arms the worker, which refuses while there is something to do; then it
 * sleeps in one epoll set with the worker's descriptor, the side channels and the eventfd of
 * wake(). */
#include "ucx.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static const sockets_transport transport = {
    .name = "ucx",
    .address_magic = "wfu1",
    .message_magic = "wfuH",
    .extra = DESCRIPTION,
    .code_unexpected = 1,
    .abort_byte = 'A',
    .small_buffers = true,
    .describe = ucx_describe,
    .join = ucx_join,
};

static weft_status refused(const weft_link *l, const char *what, ucs_status_t why)
{
    return sockets_fail(l->net.host, WEFT_IO, "UCX cannot %s: %s (transports: %s)", what,
                        l->api->status_string(why), l->found.names);
}

static weft_status open_worker(weft_link *l)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t why = l->api->worker_create(l->context, &params, &l->worker);
    if (why != UCS_OK)
        return refused(l, "open a worker", why);
    why = l->api->worker_get_address(l->worker, &l->address, &l->address_bytes);
    if (why != UCS_OK)
        return refused(l, "tell the address of its worker", why);
    l->events = (sockets_source){.kind = SOCKETS_OTHER, .fd = -1};
    why = l->api->worker_get_efd(l->worker, &l->events.fd);
    if (why != UCS_OK)
        return refused(l, "wait for events with these transports", why);
    return sockets_watch(&l->net, &l->events, EPOLL_CTL_ADD);
}

static weft_status start(weft_link *l, ucx_module *m, const weft_link_args *args)
{
    weft_status st = sockets_open(&l->net, m->host, &transport, args);
    if (st == WEFT_OK)
        st = ucx_check_limits(m);
    if (st == WEFT_OK)
        st = ucx_load(m, args->conf);
    if (st == WEFT_OK)
        st = ucx_open_context(m, args->conf, &l->net.bound, args->ranks, &l->context, &l->found);
    return st != WEFT_OK ? st : open_worker(l);
}

static void report(const weft_link *l)
{
    const weft_host *host = l->net.host;
    char text[NAMES + 100];
    if (!host->log_enabled(host->ctx, WEFT_LOG_DEBUG))
        return;
    snprintf(text, sizeof text, "ucx %u.%u uses %s; its address has %zu bytes", l->module->major,
             l->module->minor, l->found.names, l->address_bytes);
    host->log(host->ctx, WEFT_LOG_DEBUG, text);
}

weft_status ucx_create(void *module, const weft_link_args *args, weft_link **out)
{
    ucx_module *m = module;
    const weft_host *host = m->host;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    if (st != WEFT_OK)
        return st;
    weft_link *l = host->alloc(host->ctx, sizeof *l, 0);
    if (!l)
        return sockets_fail(host, WEFT_NO_MEMORY, "no memory for a link");
    l->module = m;
    l->api = &m->api;
    st = start(l, m, args);
    if (st != WEFT_OK) {
        ucx_destroy(l);
        return st;
    }
    report(l);
    *out = l;
    return WEFT_OK;
}

void ucx_destroy(weft_link *l)
{
    if (!l)
        return;
    while (ucx_first(l))
        ucx_disconnect(ucx_first(l));
    if (l->address)
        l->api->worker_release_address(l->worker, l->address);
    if (l->worker)
        l->api->worker_destroy(l->worker);
    if (l->context)
        l->api->cleanup(l->context);
    sockets_close(&l->net);
    l->net.host->free(l->net.host->ctx, l);
}

/* Would a call on some connection find work now? */
static bool has_work(weft_link *l)
{
    bool found = sockets_has_work(&l->net) || ucx_turn(l);
    for (const weft_conn *c = ucx_first(l); c; c = ucx_next(c))
        found |= (c->unseen || c->peer.broken != WEFT_OK) && (!c->ready || ucx_has_posted(c));
    return found;
}

/* Deadlines shorten the sleep: attempts to dial, a peer that has left. */
static uint32_t shorten(const weft_link *l, uint32_t timeout_us)
{
    const uint32_t pause = sockets_pause_us(&l->net);
    uint32_t max = timeout_us < pause ? timeout_us : pause;
    for (const weft_conn *c = ucx_first(l); c; c = ucx_next(c))
        if ((c->gone != GONE_NOT || c->failed != UCS_OK) && max > SOCKETS_GAP_US)
            max = SOCKETS_GAP_US;
    return max;
}

static uint32_t sleep_us(weft_link *l, uint32_t timeout_us)
{
    const ucs_status_t armed = l->api->worker_arm(l->worker);
    if (armed == UCS_ERR_BUSY)
        return 0;
    const uint32_t max = shorten(l, timeout_us);
    return armed == UCS_OK || max < 1000 ? max : 1000;
}

weft_status ucx_wait(weft_link *l, uint32_t spin_us, uint32_t timeout_us)
{
    bool found = has_work(l);
    const uint64_t until = !found && spin_us > 0 ? sockets_now_us() + spin_us : 0;
    while (!found && until > 0 && sockets_now_us() < until) {
        for (int i = 0; i < 32 && !found; i++) {
            weft_pause();
            found = has_work(l);
        }
    }
    ucx_events(l, found ? 0 : sleep_us(l, timeout_us));
    return sockets_link_usable(&l->net);
}

void ucx_wake(weft_link *l)
{
    sockets_wake(&l->net);
}

/* Other threads must not enter the worker: both ends learn it from the side channels. */
void ucx_abort(weft_link *l)
{
    sockets_abort(&l->net);
}
