/* endpoint.c: UCX endpoints, one for each connection, so that one can end without the others. */
#include "ucx.h"

static void failed(void *arg, ucp_ep_h ep, ucs_status_t why)
{
    weft_conn *c = arg;
    (void)ep;
    if (c->failed == UCS_OK)
        c->failed = why;
}

weft_status ucx_open_endpoint(weft_conn *c)
{
    weft_link *l = c->link;
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = (const ucp_address_t *)(c->address + ADDRESS_HEAD),
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = failed, .arg = c}};
    const ucs_status_t why = l->api->ep_create(l->worker, &params, &c->ep);
    if (why == UCS_OK)
        return WEFT_OK;
    c->ep = NULL;
    return sockets_break(&c->peer, WEFT_PEER,
                         "UCX cannot reach rank %u: %s; this rank has %s, and [comm.ucx] tls and "
                         "devices must leave a transport that leads there",
                         c->peer.rank, l->api->status_string(why), l->found.names);
}

/* With `force` what is in flight on the endpoint fails, and none of its memory is used afterwards;
 * else what was sent has left. */
void ucx_close_endpoint(weft_conn *c, bool force)
{
    const ucx_api *api = c->link->api;
    const ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    if (!c->ep)
        return;
    uint64_t looked = 0, passed = 0;
    void *request = api->ep_close(c->ep, &how);
    c->ep = NULL;
    if (!UCS_PTR_IS_PTR(request))
        return;
    for (; api->request_check(request) == UCS_INPROGRESS && passed < DRAIN_US;
         passed += sockets_gap_us(&looked))
        if (!ucx_turn(c->link))
            weft_pause();
    api->request_free(request);
}
