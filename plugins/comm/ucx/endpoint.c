/* endpoint.c: UCX endpoints, one for each peer.
 *
 * UCX matches the endpoints of two workers by the order in which they are made, and the two ends of
 * several channels may connect in different orders. So the channels of a peer share an endpoint;
 * their messages differ by tag. It is made for the first connection that is authenticated and
 * closed after the last one. */
#include "ucx.h"

#include <string.h>

static void failed(void *arg, ucp_ep_h ep, ucs_status_t why)
{
    endpoint *e = arg;
    (void)ep;
    if (e->failed == UCS_OK) {
        e->failed = why;
        e->failed_at = sockets_now_us();
    }
}

static weft_status make(weft_conn *c, endpoint *e)
{
    weft_link *l = c->link;
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = (const ucp_address_t *)(c->address + ADDRESS_HEAD),
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = failed, .arg = e}};
    const ucs_status_t why = l->api->ep_create(l->worker, &params, &e->ep);
    if (why == UCS_OK)
        return WEFT_OK;
    e->ep = NULL;
    return sockets_break(&c->peer, WEFT_PEER,
                         "UCX cannot reach rank %u: %s; this rank has %s, and [comm.ucx] tls and "
                         "devices must leave a transport that leads there",
                         c->peer.rank, l->api->status_string(why), l->found.names);
}

weft_status ucx_join_endpoint(weft_conn *c)
{
    weft_link *l = c->link;
    const weft_host *host = l->net.host;
    const uint64_t digest = ucx_digest(c->address, c->address_bytes);
    endpoint *e = l->endpoints;
    while (e && (e->rank != c->peer.rank || e->address != digest || e->failed != UCS_OK || !e->ep))
        e = e->next;
    if (!e) {
        e = host->alloc(host->ctx, sizeof *e, 0);
        if (!e)
            return sockets_break(&c->peer, WEFT_NO_MEMORY, "no memory for an endpoint");
        *e = (endpoint){.next = l->endpoints, .link = l, .rank = c->peer.rank, .address = digest};
        const weft_status st = make(c, e);
        if (st != WEFT_OK) {
            host->free(host->ctx, e);
            return st;
        }
        l->endpoints = e;
    }
    e->users++;
    c->to = e;
    return WEFT_OK;
}

/* With `force` what is in flight on the endpoint fails, and none of its memory is used afterwards.
 */
void ucx_close_endpoint(endpoint *e, bool force)
{
    const ucx_api *api = e->link->api;
    const ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    if (!e->ep)
        return;
    const uint64_t until = sockets_now_us() + DRAIN_US;
    void *request = api->ep_close(e->ep, &how);
    e->ep = NULL;
    if (e->failed == UCS_OK)
        e->failed = UCS_ERR_CONNECTION_RESET; /* for channels that still share it */
    if (!UCS_PTR_IS_PTR(request))
        return;
    while (api->request_check(request) == UCS_INPROGRESS && sockets_now_us() < until)
        if (api->worker_progress(e->link->worker) == 0)
            weft_pause();
    api->request_free(request);
}

void ucx_leave_endpoint(weft_conn *c)
{
    endpoint *e = c->to;
    c->to = NULL;
    if (!e || --e->users > 0)
        return;
    ucx_close_endpoint(e, e->failed != UCS_OK || c->gone != GONE_NOT);
    endpoint **at = &c->link->endpoints;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    c->link->net.host->free(c->link->net.host->ctx, e);
}
