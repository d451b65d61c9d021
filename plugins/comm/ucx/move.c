/* move.c: messages over a connection that is ready.
 *
 * A message is one tagged send and one tagged receive of UCX, which sends short ones unasked and
 * lets the receiver fetch long ones. The receive says how many bytes the sender has sent: more or
 * fewer than expected is a failure with both counts. */
#include "ucx.h"

static void finish(message *m, ucs_status_t status)
{
    m->status = status;
    m->finished = true;
    m->request = NULL;
    m->conn->unseen = true;
}

static void sent(void *request, ucs_status_t status, void *arg)
{
    message *m = arg;
    finish(m, status);
    m->conn->link->api->request_free(request);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    message *m = arg;
    m->came = info->length;
    finish(m, status);
    m->conn->link->api->request_free(request);
}

static void started(message *m, void *request)
{
    if (!UCS_PTR_IS_PTR(request))
        finish(m, UCS_PTR_RAW_STATUS(request));
    else if (!m->finished)
        m->request = request;
}

void ucx_issue_send(message *m, ucp_tag_t tag)
{
    const weft_conn *c = m->conn;
    const ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                     .cb.send = sent,
                                     .user_data = m,
                                     .memory_type = UCS_MEMORY_TYPE_HOST};
    if (c->failed != UCS_OK)
        finish(m, c->failed);
    else
        started(m, c->link->api->tag_send(c->ep, m->at, m->bytes, tag, &how));
}

/* The number of bytes is asked for by the callback, which UCX also calls at once where the message
 * is there: the other way to get it leaves it unset in some versions. */
void ucx_issue_recv(message *m, ucp_tag_t tag)
{
    weft_link *l = m->conn->link;
    const ucp_request_param_t how = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = received,
        .user_data = m,
        .memory_type = UCS_MEMORY_TYPE_HOST};
    started(m, l->api->tag_recv(l->worker, m->at, m->bytes, tag, UINT64_MAX, &how));
}

void ucx_issue(weft_conn *c)
{
    for (; c->in.issued < c->in.posted; c->in.issued++)
        ucx_issue_recv(&c->in.m[c->in.issued % QUEUE], c->mine);
    for (; c->out.issued < c->out.posted; c->out.issued++)
        ucx_issue_send(&c->out.m[c->out.issued % QUEUE], c->theirs);
}

static weft_status post(weft_conn *c, queue *q, void *at, uint64_t bytes)
{
    const weft_status st = sockets_usable(&c->peer);
    if (st != WEFT_OK)
        return st;
    if (q->posted - q->done == QUEUE)
        return WEFT_BUSY;
    q->m[q->posted++ % QUEUE] = (message){.conn = c, .at = at, .bytes = bytes};
    if (c->ready)
        ucx_issue(c);
    return WEFT_OK;
}

weft_status ucx_send(weft_conn *c, const void *from, uint64_t bytes)
{
    return post(c, &c->out, (void *)(uintptr_t)from, bytes);
}

weft_status ucx_recv(weft_conn *c, void *to, uint64_t bytes)
{
    return post(c, &c->in, to, bytes);
}

bool ucx_turn(weft_link *l)
{
    const bool any = l->api->worker_progress(l->worker) > 0;
    l->moves += any;
    return any;
}

/* The receiver has the sentence for a message that was too long. */
static void count(weft_conn *c, queue *q)
{
    const bool sending = q == &c->out;
    while (q->done < q->issued && c->peer.broken == WEFT_OK) {
        const message *m = &q->m[q->done % QUEUE];
        if (!m->finished)
            return;
        const bool cut = sending && m->status == UCS_ERR_MESSAGE_TRUNCATED;
        if ((m->status != UCS_OK && !cut) || (!sending && m->came != m->bytes)) {
            (void)!ucx_message_failed(c, m, sending);
            return;
        }
        q->done++;
    }
}

weft_status ucx_progress(weft_conn *c, uint64_t *sent_count, uint64_t *received_count)
{
    weft_status st = sockets_usable(&c->peer);
    if (st != WEFT_OK)
        return st;
    if (c->ready) {
        const bool found = ucx_turn(c->link) || c->unseen;
        c->unseen = false;
        count(c, &c->in);
        count(c, &c->out);
        if (found)
            c->idle = 0;
        else if (++c->idle % LOOK_EVERY == 0)
            ucx_events(c->link, 0);
        ucx_check_peer(c);
        st = sockets_usable(&c->peer);
        if (st != WEFT_OK)
            return st;
    }
    *sent_count = c->out.done;
    *received_count = c->in.done;
    return WEFT_OK;
}
