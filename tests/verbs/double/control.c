/* control.c: what tests say of the net, and ask of it. */
#include "inner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

fake_net net = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

void lock(void)
{
    pthread_mutex_lock(&net.lock);
    if (net.next_key == 0) { /* the first call of all */
        pthread_mutex_unlock(&net.lock);
        double_reset();
        pthread_mutex_lock(&net.lock);
    }
}

void unlock(void)
{
    pthread_mutex_unlock(&net.lock);
}

void offend(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(net.offence, sizeof net.offence, fmt, args);
    va_end(args);
    net.offences++;
}

const double_device *about(const struct ibv_context *c)
{
    return &net.about[c->device - net.device];
}

bool calls_fail(const char *name)
{
    if (!net.call || strcmp(net.call, name) != 0 || --net.call_in > 0)
        return false;
    net.call = NULL;
    errno = net.call_why;
    return true;
}

/* Memory for an object, counted; NULL when the call is to fail. */
void *make(const char *name, size_t bytes)
{
    if (calls_fail(name))
        return NULL;
    net.objects++;
    return calloc(1, bytes);
}

void unmake(void *object)
{
    net.objects--;
    free(object);
}

struct ibv_gid_entry double_gid(const char *text, int index, int type)
{
    struct ibv_gid_entry e = {.gid_index = (uint32_t)index, .port_num = 1};
    e.gid_type = (uint32_t)type;
    e.gid.raw[10] = e.gid.raw[11] = 0xff;
    if (inet_pton(AF_INET, text, e.gid.raw + 12) != 1)
        inet_pton(AF_INET6, text, e.gid.raw);
    return e;
}

void double_devices(const double_device *list, int n)
{
    pthread_mutex_lock(&net.lock);
    net.devices = n;
    for (int i = 0; i < n; i++) {
        net.about[i] = list[i];
        net.about[i].longest = list[i].longest ? list[i].longest : (1 << 20) + 4096;
        net.about[i].inlined = list[i].inlined ? list[i].inlined : 256;
        snprintf(net.device[i].name, sizeof net.device[i].name, "%s", list[i].name);
    }
    pthread_mutex_unlock(&net.lock);
}

void double_reset(void)
{
    double_device one = {.name = "double0", .gids = 4};
    one.gid[0] = double_gid("fe80::1", 0, IBV_GID_TYPE_ROCE_V1);
    one.gid[1] = double_gid("fe80::1", 1, IBV_GID_TYPE_ROCE_V2);
    one.gid[2] = double_gid("10.0.0.1", 2, IBV_GID_TYPE_ROCE_V1);
    one.gid[3] = double_gid("10.0.0.1", 3, IBV_GID_TYPE_ROCE_V2);
    const char *asked = getenv("DOUBLE_DEVICES");
    double_devices(&one, asked && strcmp(asked, "none") == 0 ? 0 : 1);
    pthread_mutex_lock(&net.lock);
    memset(net.fail, 0, sizeof net.fail);
    memset(net.requests, 0, sizeof net.requests);
    net.call = NULL;
    net.limit = 0;
    net.lost = net.dmabuf = false;
    net.offences = net.events = net.joins = 0;
    net.next_key = net.next_key ? net.next_key : 0x100;
    pthread_mutex_unlock(&net.lock);
}

#define SETTER(declaration, statement)                                                             \
    void declaration                                                                               \
    {                                                                                              \
        lock();                                                                                    \
        statement;                                                                                 \
        unlock();                                                                                  \
    }
SETTER(double_fail_sends(enum ibv_wr_opcode opcode, enum ibv_wc_status status),
       net.fail[opcode] = status)
SETTER(double_fail_call(const char *name, int n, int why), net.call = name; net.call_in = n;
       net.call_why = why)
SETTER(double_limit(uint64_t bytes), net.limit = bytes)
SETTER(double_dmabuf(int accepted), net.dmabuf = accepted)
SETTER(double_unplug(int lost), net.lost = lost)

void double_event(enum ibv_event_type type)
{
    lock();
    fake_event *e = &net.event[net.events++ % 16];
    *e = (fake_event){.e.event_type = type, .to = net.last};
    e->e.element.port_num = 1;
    if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_ACCESS_ERR ||
        type == IBV_EVENT_QP_REQ_ERR)
        e->e.element.qp = &net.qps->qp;
    if (type == IBV_EVENT_CQ_ERR)
        e->e.element.cq = &net.cqs->cq;
    if (write(net.last->num_comp_vectors, &e, sizeof e) != sizeof e)
        offend("an event that nobody takes");
    unlock();
}

int double_objects(void)
{
    lock();
    int n = net.objects;
    unlock();
    return n;
}

struct ibv_qp_attr double_joined(int *count, const char **device)
{
    lock();
    struct ibv_qp_attr last = net.joined;
    *count = net.joins;
    *device = net.joined_on;
    unlock();
    return last;
}

int double_offences(void)
{
    lock();
    int n = net.offences;
    unlock();
    return n;
}

const char *double_offence(void)
{
    return net.offence;
}

uint64_t double_requests(enum ibv_wr_opcode opcode)
{
    lock();
    uint64_t n = net.requests[opcode];
    unlock();
    return n;
}

/* Whoever was tested without a look at the counts is judged at the end. */
__attribute__((destructor)) static void judge(void)
{
    if (net.offences == 0 && net.objects == 0)
        return;
    fprintf(stderr, "double: %d offences (%s), %d objects left\n", net.offences, net.offence,
            net.objects);
    _exit(9);
}
