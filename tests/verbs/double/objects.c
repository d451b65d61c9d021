/* objects.c: what libibverbs makes. */
#define _GNU_SOURCE 1 /* pipe2 */
#include "inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

struct ibv_device **ibv_get_device_list(int *n)
{
    lock();
    struct ibv_device **list = make("get_device_list", (DOUBLE_DEVICES + 1) * sizeof *list);
    for (int i = 0; list && i < net.devices; i++)
        list[i] = &net.device[i];
    *n = list ? net.devices : 0;
    unlock();
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    lock();
    unmake(list);
    unlock();
}

const char *ibv_get_device_name(struct ibv_device *d)
{
    return d->name;
}

/* The writing end of its pipe of events is kept in num_comp_vectors. */
struct ibv_context *ibv_open_device(struct ibv_device *d)
{
    int ends[2];
    lock();
    struct ibv_context *c = make("open_device", sizeof *c);
    if (c && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
        c->device = d;
        c->async_fd = ends[0];
        c->num_comp_vectors = ends[1];
        c->ops.poll_cq = nic_poll;
        c->ops.req_notify_cq = nic_notify;
        c->ops.post_send = nic_send;
        c->ops.post_recv = nic_recv;
        net.last = c;
        if (net.contexts++ == 0)
            nic_begin();
    }
    unlock();
    return c;
}

int ibv_close_device(struct ibv_context *c)
{
    lock();
    close(c->async_fd);
    close(c->num_comp_vectors);
    if (--net.contexts == 0)
        nic_end();
    unmake(c);
    unlock();
    return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *out)
{
    (void)c;
    *out = (struct ibv_device_attr){.phys_port_cnt = 1};
    return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *out)
{
    struct ibv_port_attr *a = (struct ibv_port_attr *)out;
    const double_device *d = about(c);
    if (port != 1)
        return EINVAL;
    *a = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE, .active_mtu = IBV_MTU_4096, .lid = 7};
    if (d->port_state != 0)
        a->state = (enum ibv_port_state)d->port_state;
    a->link_layer = d->infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    a->max_msg_sz = d->longest;
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *out, size_t max,
                             uint32_t flags, size_t size)
{
    const double_device *d = about(c);
    (void)flags;
    if (size != sizeof *out || (size_t)d->gids > max || max * size > 65535) /* as the kernel */
        return -EINVAL;
    memcpy(out, d->gid, (size_t)d->gids * size);
    return d->gids;
}

/* --- objects --- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
    lock();
    struct ibv_pd *pd = make("alloc_pd", sizeof *pd);
    if (pd)
        pd->context = c;
    unlock();
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    lock();
    for (fake_mr *m = net.mrs; m; m = m->next)
        if (m->mr.pd == pd)
            offend("a protection domain goes before its memory");
    unmake(pd);
    unlock();
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
    lock();
    fake_mr *m = NULL;
    if (net.limit != 0 && net.registered + bytes > net.limit)
        errno = ENOMEM;
    else
        m = make("reg_mr", sizeof *m);
    if (m) {
        m->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = at, .length = bytes};
        m->mr.lkey = m->mr.rkey = ++net.next_key;
        m->access = access;
        m->next = net.mrs;
        net.mrs = m;
        net.registered += bytes;
    }
    unlock();
    return m ? &m->mr : NULL;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                 int fd, int access)
{
    (void)offset;
    if (net.dmabuf && fd >= 0)
        return ibv_reg_mr(pd, (void *)(uintptr_t)iova, bytes, access);
    errno = net.dmabuf ? EBADF : EOPNOTSUPP; /* a driver that does not know it does not look */
    return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    lock();
    fake_mr **at = &net.mrs;
    while (&(*at)->mr != mr)
        at = &(*at)->next;
    *at = (*at)->next;
    net.registered -= mr->length;
    unmake(mr);
    unlock();
    return 0;
}

/* The writing end is kept in refcnt. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    int ends[2];
    lock();
    struct ibv_comp_channel *ch = make("create_comp_channel", sizeof *ch);
    if (ch && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
        ch->context = c;
        ch->fd = ends[0];
        ch->refcnt = ends[1];
    }
    unlock();
    return ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
    lock();
    for (fake_cq *q = net.cqs; q; q = q->next)
        if (q->cq.channel == c)
            offend("a channel goes before its completion queues");
    close(c->fd);
    close(c->refcnt);
    unmake(c);
    unlock();
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int entries, void *mine,
                             struct ibv_comp_channel *channel, int vector)
{
    lock();
    fake_cq *q = vector == 0 ? make("create_cq", sizeof *q) : NULL;
    if (q) {
        q->cq.context = c;
        q->cq.channel = channel;
        q->cq.cq_context = mine;
        q->cq.cqe = entries;
        q->wc = calloc((size_t)entries, sizeof *q->wc);
        q->next = net.cqs;
        net.cqs = q;
    }
    unlock();
    return q ? &q->cq : NULL;
}

/* As in the real one: what was taken has to be acknowledged, what was not is gone. */
int ibv_destroy_cq(struct ibv_cq *cq)
{
    void *events[64];
    lock();
    fake_cq *c = (fake_cq *)cq, **at = &net.cqs;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (c->users > 0)
        offend("a completion queue goes before its queue pairs");
    ssize_t n = cq->channel ? read(cq->channel->fd, events, sizeof events) : 0;
    for (ssize_t i = 0; i < n / (ssize_t)sizeof events[0]; i++)
        if (events[i] != cq && write(cq->channel->refcnt, &events[i], sizeof events[i]) < 0)
            offend("an event was lost");
    free(c->wc);
    unmake(c);
    unlock();
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **mine)
{
    void *which = NULL;
    lock();
    bool any = read(channel->fd, &which, sizeof which) == sizeof which;
    if (any) {
        *cq = which;
        *mine = (*cq)->cq_context;
    }
    unlock();
    return any ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    (void)cq, (void)n;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *how)
{
    lock();
    fake_qp *q = NULL;
    if (how->cap.max_inline_data > about(pd->context)->inlined)
        errno = EINVAL;
    else
        q = make("create_qp", sizeof *q);
    if (q) {
        q->qp.context = pd->context;
        q->qp.pd = pd;
        q->qp.qp_context = how->qp_context;
        q->qp.send_cq = how->send_cq;
        q->qp.recv_cq = how->recv_cq;
        q->qp.qp_num = ++net.next_number;
        q->cap = how->cap;
        q->send = calloc(how->cap.max_send_wr, sizeof *q->send);
        q->recv = calloc(how->cap.max_recv_wr, sizeof *q->recv);
        q->room = calloc(how->cap.max_recv_wr, sizeof *q->room);
        ((fake_cq *)how->send_cq)->users++;
        q->next = net.qps;
        net.qps = q;
    }
    unlock();
    return q ? &q->qp : NULL;
}

/* Each transition with the attributes that the standard wants for it. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *to, int what)
{
    static const int wanted[] = {
        [IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        [IBV_QPS_RTR] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        [IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC};
    fake_qp *q = (fake_qp *)qp;
    lock();
    int why = 0;
    if (calls_fail("modify_qp"))
        why = errno;
    else if ((unsigned)to->qp_state > IBV_QPS_RTS || to->qp_state != qp->state + 1 ||
             what != wanted[to->qp_state])
        why = EINVAL;
    if (why == 0)
        qp->state = to->qp_state;
    if (why == 0 && to->qp_state == IBV_QPS_RTR) {
        q->attr = net.joined = *to;
        net.joined_on = qp->context->device->name;
        net.joins++;
    }
    if (why == 0 && to->qp_state == IBV_QPS_RTS) {
        net.joined.timeout = to->timeout;
        net.joined.retry_cnt = to->retry_cnt;
    }
    unlock();
    return why;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    lock();
    fake_qp *q = (fake_qp *)qp, **at = &net.qps;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    ((fake_cq *)qp->send_cq)->users--;
    free(q->send);
    free(q->recv);
    free(q->room);
    unmake(q);
    unlock();
    return 0;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *out)
{
    fake_event *e = NULL;
    lock();
    bool any = read(c->async_fd, &e, sizeof e) == sizeof e;
    if (any)
        *out = e->e;
    unlock();
    return any ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *e)
{
    (void)e;
}
