/* flush.c: makes what the NIC has written visible to a device.
 *
 * A completion guarantees that data is in memory only if data and completion go to the same memory.
 * Data for a device's memory may still be on the bus when its completion is in host memory. A read
 * of that memory by the NIC cannot overtake the writes before it. So each rail has a loopback queue
 * pair, which is connected to itself, and a message into a device's memory counts as received once
 * a read of one byte has completed on each rail. None of this is set up for host memory. */
#include "verbs.h"

#include <errno.h>
#include <string.h>

static weft_status begin(weft_link *l, rail *r)
{
    struct ibv_qp_init_attr how = {.qp_type = IBV_QPT_RC};
    how.cap.max_send_wr = SEND_DEPTH;
    how.cap.max_recv_wr = how.cap.max_send_sge = how.cap.max_recv_sge = 1;
    r->loop_mr =
        l->api->reg_mr(r->pd, r->flush_target, sizeof r->flush_target, IBV_ACCESS_LOCAL_WRITE);
    r->loop_cq = l->api->create_cq(r->context, SEND_DEPTH + 1, NULL, NULL, 0);
    how.send_cq = how.recv_cq = r->loop_cq;
    if (r->loop_mr && r->loop_cq)
        r->loop = l->api->create_qp(r->pd, &how);
    if (!r->loop)
        return sockets_fail(l->net.host, WEFT_IO,
                            "%s cannot create the loopback queue pair that flushes the device's "
                            "memory: %s",
                            r->name, strerror(errno));
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = r->port};
    a.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    int why = l->api->modify_qp(
        r->loop, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .dest_qp_num = r->loop->qp_num};
    a.path_mtu = r->mtu;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 12;
    a.ah_attr = (struct ibv_ah_attr){.dlid = r->lid, .is_global = r->ethernet, .port_num = r->port};
    a.ah_attr.grh.dgid = r->gid;
    a.ah_attr.grh.sgid_index = r->gid_index;
    a.ah_attr.grh.hop_limit = 1;
    if (why == 0)
        why =
            l->api->modify_qp(r->loop, &a,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
    a.rnr_retry = 7;
    a.max_rd_atomic = 1;
    if (why == 0)
        why = l->api->modify_qp(r->loop, &a,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    return why == 0
               ? WEFT_OK
               : sockets_fail(l->net.host, WEFT_IO, "%s cannot connect its loopback queue pair: %s",
                              r->name, strerror(why));
}

weft_status verbs_open_loopbacks(weft_link *l)
{
    weft_status st = WEFT_OK;
    l->device_memory = true;
    for (uint32_t i = 0; st == WEFT_OK && i < l->nrails; i++)
        if (!l->rail[i].loop)
            st = begin(l, &l->rail[i]);
    return st;
}

void verbs_close_loopback(const verbs_api *api, rail *r)
{
    if (r->loop)
        api->destroy_qp(r->loop);
    if (r->loop_cq)
        api->destroy_cq(r->loop_cq);
    if (r->loop_mr)
        api->dereg_mr(r->loop_mr);
    r->loop = NULL;
    r->loop_cq = NULL;
    r->loop_mr = NULL;
}

static bool read_back(weft_conn *c, message *m, uint32_t i)
{
    rail *r = &c->link->rail[i];
    struct ibv_sge piece = {(uintptr_t)r->flush_target, 1, r->loop_mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &piece, .num_sge = 1}, *bad;
    wr.wr_id = r->loops + 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = (uintptr_t)m->at;
    wr.wr.rdma.rkey = m->region->mr[i]->rkey;
    if (r->loops - r->looped == SEND_DEPTH)
        return false;
    if (ibv_post_send(r->loop, &wr, &bad) != 0) {
        (void)!sockets_break(&c->peer, WEFT_IO,
                             "%s cannot read the memory of the device on this rank", r->name);
        return false;
    }
    m->loops[i] = ++r->loops;
    return true;
}

/* progress() asks again until the answer is true. */
bool verbs_flushed(weft_conn *c, message *m)
{
    bool there = true;
    if (!m->region || !m->region->device)
        return true;
    c->unseen = true; /* these reads make no event: wait() must not sleep */
    for (uint32_t i = 0; i < c->link->nrails; i++) {
        rail *r = &c->link->rail[i];
        struct ibv_wc wc;
        while (ibv_poll_cq(r->loop_cq, 1, &wc) > 0) {
            if (wc.status != IBV_WC_SUCCESS)
                (void)!verbs_completion_failed(c, &wc);
            r->looped = wc.wr_id;
        }
        if (m->loops[i] == 0 && !read_back(c, m, i))
            return false;
        there &= r->looped >= m->loops[i];
    }
    return there && c->peer.broken == WEFT_OK;
}
