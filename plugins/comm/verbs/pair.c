/* pair.c: the queue pairs of a connection: create, connect to those of the peer, post requests.
 *
 * Pair i is on rail (channel + i) mod rails, so that pair 0, which carries short messages, is not
 * on the same NIC for all channels. Each connection has a completion queue of its own for each rail
 * that it uses, so that polling finds no completions of others.
 *
 * Receive requests. Pair 0 receives at most: one announcement for each slot, one stripe for each
 * message that has a credit, one credit for each receive of the peer, one want for each message
 * that waits, and a few other records. That is slots + 3 * QUEUE + 16. Other pairs receive stripes
 * only. So a sender always finds a receive request; RNR means that the ends disagree. */
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { OTHER_RECEIVES = QUEUE + 16, HOPS = 64, RNR_TIMER = 12 };

static uint32_t receives_of(const weft_conn *c, uint32_t pair)
{
    return pair == 0 ? c->mine.slots + 3 * QUEUE + 16 : OTHER_RECEIVES;
}

/* The exponent of the standard: 4.096 us times a power of two. */
uint8_t verbs_timeout_code(double seconds)
{
    uint8_t code = 1;
    while (code < 31 && 4.096e-6 * (double)(1u << code) < seconds)
        code++;
    return code;
}

double verbs_retry_seconds(const verbs_options *o)
{
    return 4.096e-6 * (double)(1u << o->timeout) * (double)(o->retry + 1);
}

bool verbs_capacity(const qpair *p)
{
    return p->posted - p->done < SEND_DEPTH;
}

static weft_status lacking(weft_conn *c, const rail *r, const char *what)
{
    int why = errno;
    bool locked = why == ENOMEM;
    return sockets_fail(c->link->net.host, locked ? WEFT_NO_MEMORY : WEFT_IO,
                        "%s cannot create the %s for channel %u with rank %u: %s%s", r->name, what,
                        c->peer.channel, c->peer.rank, strerror(why),
                        locked ? "; the limit of locked memory may be too low: `ulimit -l "
                                 "unlimited` raises it"
                               : "");
}

/* Slots, staging copies, records in and out: one allocation, one registration. */
static weft_status make_memory(weft_conn *c)
{
    weft_link *l = c->link;
    rail *r = &l->rail[c->pair[0].rail];
    uint64_t slots = (uint64_t)c->mine.slots * c->mine.slot_bytes;
    uint64_t bytes_in = (uint64_t)receives_of(c, 0) * RECORD,
             bytes_out = (uint64_t)SEND_DEPTH * RECORD;
    c->memory_bytes = 2 * slots + bytes_in + bytes_out;
    c->memory = l->net.host->alloc(l->net.host->ctx, c->memory_bytes, 4096);
    c->slot_request =
        l->net.host->alloc(l->net.host->ctx, c->mine.slots * sizeof *c->slot_request, 0);
    c->arrival = l->net.host->alloc(l->net.host->ctx, c->mine.slots * sizeof *c->arrival, 0);
    if (!c->memory || !c->slot_request || !c->arrival)
        return sockets_fail(l->net.host, WEFT_NO_MEMORY, "no memory for the slots of a connection");
    c->mr = l->api->reg_mr(r->pd, c->memory, c->memory_bytes,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!c->mr)
        return lacking(c, r, "registered slots");
    c->slot = c->memory;
    c->staged = c->slot + slots;
    c->records_in = c->staged + slots;
    c->records_out = c->records_in + bytes_in;
    c->mine.slots_at = (uintptr_t)c->slot;
    c->mine.slots_key = c->mr->rkey;
    return WEFT_OK;
}

static weft_status make_queues(weft_conn *c)
{
    weft_link *l = c->link;
    int entries[RAILS] = {0};
    for (uint32_t i = 0; i < c->pairs; i++)
        entries[c->pair[i].rail] += SEND_DEPTH + (int)receives_of(c, i);
    for (uint32_t i = 0; i < l->nrails; i++) {
        rail *r = &l->rail[i];
        if (entries[i] == 0)
            continue;
        c->cq[i] = l->api->create_cq(r->context, entries[i], c, r->channel, 0);
        if (!c->cq[i])
            return lacking(c, r, "completion queue");
    }
    return WEFT_OK;
}

/* A device that cannot inline that many bytes refuses with EINVAL; then fewer are tried. */
static struct ibv_qp *create(weft_conn *c, uint32_t i)
{
    weft_link *l = c->link;
    rail *r = &l->rail[c->pair[i].rail];
    uint32_t want = l->options.max_inline > RECORD ? l->options.max_inline : RECORD;
    struct ibv_qp *qp = NULL;
    errno = EINVAL;
    for (int tries = 0; !qp && tries < 3 && errno == EINVAL; tries++) {
        struct ibv_qp_init_attr how = {.send_cq = c->cq[c->pair[i].rail],
                                       .recv_cq = c->cq[c->pair[i].rail],
                                       .qp_context = c,
                                       .qp_type = IBV_QPT_RC};
        how.cap.max_send_wr = SEND_DEPTH;
        how.cap.max_recv_wr = receives_of(c, i);
        how.cap.max_send_sge = how.cap.max_recv_sge = 1;
        how.cap.max_inline_data = want;
        qp = l->api->create_qp(r->pd, &how);
        c->pair[i].inlined = want;
        want = tries == 0 ? RECORD : 0;
    }
    return qp;
}

static weft_status make_pair(weft_conn *c, uint32_t i)
{
    weft_link *l = c->link;
    qpair *p = &c->pair[i];
    rail *r = &l->rail[p->rail];
    uint32_t first = 0;
    p->qp = create(c, i);
    if (!p->qp)
        return lacking(c, r, "queue pair");
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = r->port};
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    errno = l->api->modify_qp(p->qp, &a,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (errno != 0)
        return lacking(c, r, "usable queue pair");
    for (uint32_t k = 0; k < receives_of(c, i); k++)
        if (verbs_post_receive(c, i, k) != WEFT_OK)
            return lacking(c, r, "receive requests");
    if (getrandom(&first, sizeof first, 0) != sizeof first)
        first = (uint32_t)sockets_now_us();
    c->mine.pair[i] = (pair_info){.gid = r->gid,
                                  .number = p->qp->qp_num,
                                  .first = first & 0xffffff,
                                  .lid = r->lid,
                                  .mtu = r->mtu,
                                  .ethernet = r->ethernet};
    return WEFT_OK;
}

weft_status verbs_make_pairs(weft_conn *c)
{
    weft_link *l = c->link;
    c->pairs = l->nrails * (uint32_t)l->options.qps;
    if (c->pairs > PAIRS)
        c->pairs = PAIRS;
    for (uint32_t i = 0; i < c->pairs; i++)
        c->pair[i].rail = (c->peer.channel + i) % l->nrails;
    c->mine = (endpoint_info){.pairs = c->pairs,
                              .rails = l->nrails,
                              .slots = l->options.slots,
                              .slot_bytes = (l->options.eager + RECORD - 1) / RECORD * RECORD,
                              .eager = l->device_memory ? 0 : l->options.eager,
                              .longest = UINT64_MAX};
    for (uint32_t i = 0; i < l->nrails; i++)
        if (l->rail[i].longest < c->mine.longest)
            c->mine.longest = l->rail[i].longest;
    weft_status st = make_memory(c);
    if (st == WEFT_OK)
        st = make_queues(c);
    for (uint32_t i = 0; st == WEFT_OK && i < c->pairs; i++)
        st = make_pair(c, i);
    return st;
}

/* The attributes that connect to the peer's queue pair, with the smaller MTU. InfiniBand needs the
 * global address only between subnets. */
static struct ibv_qp_attr towards(const weft_conn *c, uint32_t i)
{
    const weft_link *l = c->link;
    const rail *r = &l->rail[c->pair[i].rail];
    const pair_info *to = &c->theirs.pair[i];
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTR, .dest_qp_num = to->number, .rq_psn = to->first};
    a.path_mtu = to->mtu < r->mtu ? to->mtu : r->mtu;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = RNR_TIMER;
    a.ah_attr.port_num = r->port;
    a.ah_attr.sl = (uint8_t)l->options.service_level;
    a.ah_attr.dlid = to->lid;
    a.ah_attr.is_global =
        r->ethernet || to->gid.global.subnet_prefix != r->gid.global.subnet_prefix;
    if (a.ah_attr.is_global) {
        a.ah_attr.grh.dgid = to->gid;
        a.ah_attr.grh.sgid_index = r->gid_index;
        a.ah_attr.grh.hop_limit = HOPS;
        a.ah_attr.grh.traffic_class = (uint8_t)l->options.traffic_class;
    }
    return a;
}

static weft_status join(weft_conn *c, uint32_t i)
{
    weft_link *l = c->link;
    qpair *p = &c->pair[i];
    const rail *r = &l->rail[p->rail];
    struct ibv_gid_entry there = {.gid = c->theirs.pair[i].gid,
                                  .gid_type = r->ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB};
    char where[80];
    verbs_print_gid(&there, where, sizeof where);
    if (c->theirs.pair[i].ethernet != r->ethernet)
        return sockets_break(&c->peer, WEFT_USAGE,
                             "the RDMA port of rank %u and %s of this rank have different link "
                             "layers, InfiniBand and Ethernet",
                             c->peer.rank, r->name);
    struct ibv_qp_attr a = towards(c, i);
    int why =
        l->api->modify_qp(p->qp, &a,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (why != 0)
        return sockets_break(&c->peer, WEFT_PEER,
                             "%s cannot be connected with rank %u at GID %s: %s; is there a route "
                             "to it?",
                             r->name, c->peer.rank, where, strerror(why));
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = c->mine.pair[i].first};
    a.timeout = (uint8_t)l->options.timeout;
    a.retry_cnt = (uint8_t)l->options.retry;
    a.rnr_retry = 7; /* without end: the receiver is slow to post, not dead */
    a.max_rd_atomic = 1;
    why = l->api->modify_qp(p->qp, &a,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    return why == 0 ? WEFT_OK
                    : sockets_break(&c->peer, WEFT_IO, "%s cannot be made to send to rank %u: %s",
                                    r->name, c->peer.rank, strerror(why));
}

weft_status verbs_join_pairs(weft_conn *c)
{
    if (c->theirs.pairs < c->pairs)
        c->pairs = c->theirs.pairs;
    c->slots = c->theirs.slots < c->mine.slots ? c->theirs.slots : c->mine.slots;
    c->slot_bytes =
        c->theirs.slot_bytes < c->mine.slot_bytes ? c->theirs.slot_bytes : c->mine.slot_bytes;
    c->eager = c->theirs.eager < c->mine.eager ? c->theirs.eager : c->mine.eager;
    c->longest = c->theirs.longest < c->mine.longest ? c->theirs.longest : c->mine.longest;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < c->pairs; i++)
        st = join(c, i);
    return st;
}

void verbs_free_pairs(weft_conn *c)
{
    weft_link *l = c->link;
    for (uint32_t i = 0; i < PAIRS; i++)
        if (c->pair[i].qp)
            l->api->destroy_qp(c->pair[i].qp);
    for (uint32_t i = 0; i < RAILS; i++)
        if (c->cq[i])
            l->api->destroy_cq(c->cq[i]);
    if (c->mr)
        l->api->dereg_mr(c->mr);
    l->net.host->free(l->net.host->ctx, c->memory);
    l->net.host->free(l->net.host->ctx, c->slot_request);
    l->net.host->free(l->net.host->ctx, c->arrival);
}

/* wr_id has the operation, pair and request number. A completion of one request stands for all
 * before it on its pair. */
weft_status verbs_post(weft_conn *c, uint32_t pair_number, enum operation op,
                       struct ibv_send_wr *wr, bool signal)
{
    qpair *p = &c->pair[pair_number];
    struct ibv_send_wr *bad;
    uint64_t number = p->posted + 1;
    if (signal || number - p->signaled >= SIGNAL_EVERY)
        wr->send_flags |= IBV_SEND_SIGNALED;
    wr->wr_id = (uint64_t)op << 56 | (uint64_t)pair_number << 48 | number;
    int why = ibv_post_send(p->qp, wr, &bad);
    if (why != 0)
        return sockets_break(
            &c->peer, WEFT_IO, "%s does not accept a request to rank %u on channel %u: %s",
            c->link->rail[p->rail].name, c->peer.rank, c->peer.channel, strerror(why));
    p->posted = number;
    if (wr->send_flags & IBV_SEND_SIGNALED)
        p->signaled = number;
    return WEFT_OK;
}

weft_status verbs_post_receive(weft_conn *c, uint32_t pair_number, uint64_t request)
{
    qpair *p = &c->pair[pair_number];
    struct ibv_recv_wr wr = {0}, *bad;
    struct ibv_sge room = {.length = RECORD};
    wr.wr_id = (uint64_t)OP_RECEIVE << 56 | (uint64_t)pair_number << 48 | request;
    if (pair_number == 0) { /* only this one receives records */
        room.addr = (uintptr_t)(c->records_in + request * RECORD);
        room.lkey = c->mr->lkey;
        wr.sg_list = &room;
        wr.num_sge = 1;
    }
    int why = ibv_post_recv(p->qp, &wr, &bad);
    if (why != 0)
        return sockets_break(&c->peer, WEFT_IO,
                             "%s does not accept a receive request from rank %u on channel %u: %s",
                             c->link->rail[p->rail].name, c->peer.rank, c->peer.channel,
                             strerror(why));
    return WEFT_OK;
}
