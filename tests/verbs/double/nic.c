/* nic.c: the NIC: a thread that executes what is posted. */
#include "inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 300, AT_ONCE = 4 };

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t draw(void)
{
    net.seed = net.seed * 6364136223846793005u + 1442695040888963407u;
    return net.seed >> 33;
}

static void complete(struct ibv_cq *to, const struct ibv_wc *wc)
{
    fake_cq *c = (fake_cq *)to;
    void *which = c;
    if (c->in - c->out == (uint64_t)c->cq.cqe) {
        offend("a completion queue of %d entries overflows", c->cq.cqe);
        return;
    }
    c->wc[c->in++ % (uint64_t)c->cq.cqe] = *wc;
    if (c->armed && c->cq.channel)
        c->armed = write(c->cq.channel->refcnt, &which, sizeof which) != sizeof which;
}

static void finish_send(fake_qp *q, const work *w, enum ibv_wc_status s)
{
    struct ibv_wc wc = {.wr_id = w->wr.wr_id, .status = s, .qp_num = q->qp.qp_num};
    wc.vendor_err = s == IBV_WC_SUCCESS || s == IBV_WC_WR_FLUSH_ERR ? 0 : 0x81;
    if (s != IBV_WC_SUCCESS || (w->wr.send_flags & IBV_SEND_SIGNALED))
        complete(q->qp.send_cq, &wc);
    q->sent++;
}

void nic_stop_qp(fake_qp *q, enum ibv_wc_status first)
{
    q->qp.state = IBV_QPS_ERR;
    for (enum ibv_wc_status s = first; q->sent < q->posted; s = IBV_WC_WR_FLUSH_ERR)
        finish_send(q, &q->send[q->sent % q->cap.max_send_wr], s);
    for (; q->received < q->ready; q->received++) {
        struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = q->qp.qp_num};
        wc.wr_id = q->recv[q->received % q->cap.max_recv_wr].wr_id;
        complete(q->qp.recv_cq, &wc);
    }
}

static fake_qp *peer_of(const fake_qp *q)
{
    for (fake_qp *p = net.qps; p; p = p->next) {
        const double_device *d = about(p->qp.context);
        bool ready = p->qp.state == IBV_QPS_RTR || p->qp.state == IBV_QPS_RTS;
        if (p->qp.qp_num != q->attr.dest_qp_num || !ready || p->attr.dest_qp_num != q->qp.qp_num)
            continue;
        for (int i = 0; i < d->gids; i++)
            if (memcmp(&d->gid[i].gid, &q->attr.ah_attr.grh.dgid, sizeof d->gid[i].gid) == 0)
                return p;
        if (d->infiniband)
            return p;
    }
    return NULL;
}

static bool allowed(const struct ibv_pd *pd, uint32_t key, uint64_t at, uint64_t bytes, int access)
{
    if (bytes == 0)
        return true;
    for (const fake_mr *m = net.mrs; m; m = m->next)
        if (m->mr.lkey == key && m->mr.pd == pd && (m->access & access) == access) {
            uint64_t from = at - (uint64_t)(uintptr_t)m->mr.addr;
            return from <= m->mr.length && bytes <= m->mr.length - from;
        }
    return false;
}

static enum ibv_wc_status place(fake_qp *q, fake_qp *p, const work *w, const uint8_t *from,
                                uint64_t bytes)
{
    const struct ibv_send_wr *wr = &w->wr;
    uint8_t *to = (uint8_t *)(uintptr_t)wr->wr.rdma.remote_addr;
    struct ibv_wc wc = {.qp_num = p->qp.qp_num, .byte_len = (uint32_t)bytes};
    bool imm = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM, sends = wr->opcode == IBV_WR_SEND;
    uint64_t at = p->received % p->cap.max_recv_wr;
    if (wr->opcode == IBV_WR_RDMA_READ) {
        if (!allowed(p->qp.pd, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, bytes,
                     IBV_ACCESS_REMOTE_READ))
            return IBV_WC_REM_ACCESS_ERR;
        memcpy((void *)(uintptr_t)w->piece.addr, to, bytes);
        return IBV_WC_SUCCESS;
    }
    if (!sends && !allowed(p->qp.pd, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, bytes,
                           IBV_ACCESS_REMOTE_WRITE))
        return IBV_WC_REM_ACCESS_ERR;
    if ((sends || imm) && p->received == p->ready) {
        offend("queue pair %u has no receive request for what %u sends", p->qp.qp_num,
               q->qp.qp_num);
        return IBV_WC_RNR_RETRY_EXC_ERR;
    }
    if (sends) {
        if (p->recv[at].num_sge == 0 || p->room[at].length < bytes ||
            !allowed(p->qp.pd, p->room[at].lkey, p->room[at].addr, bytes, IBV_ACCESS_LOCAL_WRITE))
            return IBV_WC_REM_INV_REQ_ERR;
        to = (uint8_t *)(uintptr_t)p->room[at].addr;
    }
    if (bytes > 0)
        memcpy(to, from, bytes);
    if (sends || imm) {
        wc.wr_id = p->recv[at].wr_id;
        wc.opcode = imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
        wc.imm_data = wr->imm_data;
        wc.wc_flags = imm ? IBV_WC_WITH_IMM : 0;
        p->received++;
        complete(p->qp.recv_cq, &wc);
    }
    return IBV_WC_SUCCESS;
}

static void no_answer(fake_qp *q)
{
    if (q->unanswered == 0)
        q->unanswered = now_ms();
    else if (now_ms() - q->unanswered > PATIENCE_MS)
        nic_stop_qp(q, IBV_WC_RETRY_EXC_ERR);
}

/* The first send of a queue pair; false when it has to wait. */
static bool execute(fake_qp *q)
{
    work *w = &q->send[q->sent % q->cap.max_send_wr];
    bool inlined = (w->wr.send_flags & IBV_SEND_INLINE) != 0;
    uint64_t bytes = w->wr.num_sge > 0 ? w->piece.length : 0;
    const uint8_t *from = inlined ? w->inlined : (const uint8_t *)(uintptr_t)w->piece.addr;
    fake_qp *p = net.lost ? NULL : peer_of(q);
    enum ibv_wc_status s = net.fail[w->wr.opcode];
    bool reads = w->wr.opcode == IBV_WR_RDMA_READ;
    if (s == IBV_WC_SUCCESS && !inlined &&
        !allowed(q->qp.pd, w->piece.lkey, w->piece.addr, bytes, reads ? IBV_ACCESS_LOCAL_WRITE : 0))
        s = IBV_WC_LOC_PROT_ERR;
    if (s == IBV_WC_SUCCESS && !p) {
        no_answer(q);
        return false;
    }
    q->unanswered = 0;
    if (s == IBV_WC_SUCCESS)
        s = place(q, p, w, from, bytes);
    net.requests[w->wr.opcode]++;
    if (s == IBV_WC_SUCCESS)
        finish_send(q, w, s);
    else
        nic_stop_qp(q, s);
    return true;
}

/* A few sends of a few queue pairs; is there more to do? */
static bool step(void)
{
    bool more = false;
    for (fake_qp *q = net.qps; q; q = q->next) {
        uint64_t n = draw() % (AT_ONCE + 1);
        for (uint64_t i = 0; i < n && q->sent < q->posted && q->qp.state == IBV_QPS_RTS; i++)
            if (!execute(q))
                break;
        more |= q->sent < q->posted;
    }
    return more;
}

static void *run(void *nothing)
{
    const struct timespec moment = {0, 20000};
    pthread_mutex_lock(&net.lock);
    while (!net.stop) {
        if (!step())
            pthread_cond_wait(&net.work, &net.lock);
        pthread_mutex_unlock(&net.lock);
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&net.lock);
    }
    pthread_mutex_unlock(&net.lock);
    return nothing;
}

void nic_begin(void)
{
    net.stop = false;
    net.running = pthread_create(&net.nic, NULL, run, NULL) == 0;
}

/* Called with the lock, and returns with it. */
void nic_end(void)
{
    net.stop = true;
    net.running = false;
    pthread_t nic = net.nic;
    pthread_cond_signal(&net.work);
    pthread_mutex_unlock(&net.lock);
    pthread_join(nic, NULL);
    pthread_mutex_lock(&net.lock);
}

int nic_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    fake_cq *c = (fake_cq *)cq;
    int got = 0;
    pthread_mutex_lock(&net.lock);
    (void)step();
    for (; got < n && c->out < c->in; got++)
        wc[got] = c->wc[c->out++ % (uint64_t)cq->cqe];
    pthread_mutex_unlock(&net.lock);
    return got;
}

int nic_notify(struct ibv_cq *cq, int solicited)
{
    (void)solicited;
    pthread_mutex_lock(&net.lock);
    ((fake_cq *)cq)->armed = true;
    pthread_mutex_unlock(&net.lock);
    return 0;
}

int nic_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    fake_qp *q = (fake_qp *)qp;
    uint32_t bytes = wr->num_sge > 0 ? wr->sg_list[0].length : 0;
    bool inlined = (wr->send_flags & IBV_SEND_INLINE) != 0;
    pthread_mutex_lock(&net.lock);
    int why = 0;
    if (wr->next || wr->num_sge > 1 || (inlined && bytes > q->cap.max_inline_data) ||
        bytes > about(qp->context)->longest)
        why = EINVAL;
    else if (q->posted - q->sent == q->cap.max_send_wr)
        why = ENOMEM;
    if (why != 0 || (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR))
        offend("a send request that no device takes: %s", strerror(why));
    if (why == 0) {
        work *w = &q->send[q->posted++ % q->cap.max_send_wr];
        w->wr = *wr;
        if (wr->num_sge > 0)
            w->piece = wr->sg_list[0];
        if (inlined && bytes > 0)
            memcpy(w->inlined, (const void *)(uintptr_t)w->piece.addr, bytes);
        if (qp->state == IBV_QPS_ERR)
            nic_stop_qp(q, IBV_WC_WR_FLUSH_ERR);
        pthread_cond_signal(&net.work);
    }
    pthread_mutex_unlock(&net.lock);
    *bad = why != 0 ? wr : NULL;
    return why;
}

int nic_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    fake_qp *q = (fake_qp *)qp;
    pthread_mutex_lock(&net.lock);
    int why = q->ready - q->received == q->cap.max_recv_wr ? ENOMEM : 0;
    if (why != 0)
        offend("more receive requests than queue pair %u holds", qp->qp_num);
    if (why == 0) {
        uint64_t at = q->ready++ % q->cap.max_recv_wr;
        q->recv[at] = *wr;
        if (wr->num_sge > 0)
            q->room[at] = wr->sg_list[0];
    }
    pthread_mutex_unlock(&net.lock);
    *bad = why != 0 ? wr : NULL;
    return why;
}
