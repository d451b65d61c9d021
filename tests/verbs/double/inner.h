/* inner.h: what control.c, objects.c and nic.c share. `net.lock` is held wherever anything of it is
 * touched. */
#ifndef TESTS_VERBS_INNER_H
#define TESTS_VERBS_INNER_H

#include "double.h"

#include <pthread.h>
#include <stdbool.h>

enum { MAX_INLINE = 1024, OPCODES = 16 };

typedef struct fake_mr {
    struct ibv_mr mr; /* first */
    struct fake_mr *next;
    int access;
} fake_mr;

typedef struct fake_cq {
    struct ibv_cq cq; /* first */
    struct fake_cq *next;
    struct ibv_wc *wc; /* [cq.cqe] */
    uint64_t in, out;
    bool armed;
    int users;
} fake_cq;

typedef struct work {
    struct ibv_send_wr wr;
    struct ibv_sge piece;
    uint8_t inlined[MAX_INLINE];
} work;

typedef struct fake_qp {
    struct ibv_qp qp; /* first */
    struct fake_qp *next;
    struct ibv_qp_attr attr;
    struct ibv_qp_cap cap;
    work *send;
    struct ibv_recv_wr *recv;
    struct ibv_sge *room;
    uint64_t sent, posted, received, ready; /* sends done, posted; receives used, posted */
    uint64_t unanswered;                    /* ms since which the first send finds no peer */
} fake_qp;

typedef struct fake_event {
    struct ibv_async_event e;
    struct ibv_context *to;
} fake_event;

typedef struct fake_net {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t nic;
    bool running, stop, lost, dmabuf;
    struct ibv_device device[DOUBLE_DEVICES];
    double_device about[DOUBLE_DEVICES];
    int devices, contexts, objects, offences;
    struct ibv_context *last;
    fake_qp *qps;
    fake_cq *cqs;
    fake_mr *mrs;
    fake_event event[16];
    int events;
    uint32_t next_key, next_number;
    uint64_t seed, limit, registered;
    enum ibv_wc_status fail[OPCODES];
    uint64_t requests[OPCODES];
    const char *call;
    int call_in, call_why;
    struct ibv_qp_attr joined;
    const char *joined_on;
    int joins;
    char offence[160];
} fake_net;

extern fake_net net;

void lock(void); /* resets the net at the first call of all */
void unlock(void);
void *make(const char *name, size_t bytes); /* counted; NULL when that call is to fail */
void unmake(void *object);
const double_device *about(const struct ibv_context *c);
void offend(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool calls_fail(const char *name); /* sets errno */
void nic_begin(void);
void nic_end(void);
void nic_stop_qp(fake_qp *q, enum ibv_wc_status first); /* to the error state, all flushed */
int nic_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int nic_notify(struct ibv_cq *cq, int solicited);
int nic_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int nic_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
