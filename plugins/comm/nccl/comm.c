/* comm.c: communicators. All are non-blocking: every call returns at once and is then polled, so a
 * rank that never joins causes a timeout and does not hang the process. */
#include "comm.h"

#include <stdbool.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLOSE_MS 5000 /* time limit of ncclCommFinalize */

struct weft_comm {
    nccl_module *m;
    ncclComm_t comm;
    void *handle; /* of the memory that is registered with NCCL */
    uint32_t rank, ranks;
    atomic_int aborted;
};

/* Convert an NCCL result to a status and an error message. */
static weft_status said(const nccl_module *m, ncclResult_t r, const char *what)
{
    if (r == ncclSuccess)
        return WEFT_OK;
    if (r == ncclInProgress)
        return WEFT_BUSY;
    const char *more = m->nccl.GetLastError(NULL);
    weft_status st = r == ncclRemoteError                                ? WEFT_PEER
                     : r == ncclInvalidArgument || r == ncclInvalidUsage ? WEFT_USAGE
                                                                         : WEFT_IO;
    return nccl_fail(m, st, "NCCL: %s: %s%s%.300s", what, m->nccl.GetErrorString(r),
                     more && *more ? ": " : "", more ? more : "");
}

weft_status comm_id(void *module, const weft_conf *conf, void *out, uint64_t *bytes)
{
    nccl_module *m = module;
    (void)conf;
    weft_status st = nccl_load(m);
    if (st != WEFT_OK)
        return st;
    if (*bytes < sizeof(ncclUniqueId))
        return nccl_fail(m, WEFT_USAGE, "an id of NCCL takes %zu bytes", sizeof(ncclUniqueId));
    *bytes = sizeof(ncclUniqueId);
    return said(m, m->nccl.GetUniqueId(out), "making the id of a communicator");
}

static int number(const weft_conf *conf, const char *key)
{
    int64_t v = conf->integer(conf->ctx, key);
    return v ? (int)v : NCCL_CONFIG_UNDEF_INT;
}

static ncclConfig_t configure(const weft_conf *conf)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const char *net = conf->text(conf->ctx, "net");
    config.blocking = 0;
    config.splitShare = 1;
    config.minCTAs = number(conf, "min_ctas");
    config.maxCTAs = number(conf, "max_ctas");
    config.trafficClass = number(conf, "traffic_class");
    if (net && *net)
        config.netName = net;
    return config;
}

/* A communicator uses the CUDA context of the thread that opens it: make it the stream's. */
static weft_status enter_context(const nccl_module *m, void *stream)
{
    void *context = NULL;
    if (m->driver.cuStreamGetCtx(stream, &context) == 0 && m->driver.cuCtxSetCurrent(context) == 0)
        return WEFT_OK;
    return nccl_fail(m, WEFT_IO, "the driver does not report the context of a stream");
}

weft_status comm_open(void *module, const weft_coll_args *args, weft_comm **out)
{
    nccl_module *m = module;
    weft_status st = nccl_load(m);
    if (st == WEFT_OK)
        st = enter_context(m, args->stream);
    if (st != WEFT_OK)
        return st;
    if (!args->parent && args->id_bytes != sizeof(ncclUniqueId))
        return nccl_fail(m, WEFT_DATA, "the id of a communicator has %llu bytes, not NCCL's %zu",
                         (unsigned long long)args->id_bytes, sizeof(ncclUniqueId));
    weft_comm *c = m->host->alloc(m->host->ctx, sizeof *c, 0);
    if (!c)
        return nccl_fail(m, WEFT_NO_MEMORY, "no memory for a communicator");
    *c = (weft_comm){.m = m, .rank = args->rank, .ranks = args->ranks};
    ncclConfig_t config = configure(args->conf);
    ncclResult_t r;
    if (args->parent) {
        r = m->nccl.CommSplit(args->parent->comm, (int)args->color, (int)args->rank, &c->comm,
                              &config);
    } else {
        ncclUniqueId id;
        memcpy(&id, args->id, sizeof id);
        r = m->nccl.CommInitRankConfig(&c->comm, (int)args->ranks, id, (int)args->rank, &config);
    }
    st = said(m, r, "opening a communicator");
    if (st != WEFT_OK && st != WEFT_BUSY) {
        m->host->free(m->host->ctx, c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

static weft_status state(weft_comm *c, const char *what)
{
    ncclResult_t now = ncclSuccess;
    ncclResult_t r = c->m->nccl.CommGetAsyncError(c->comm, &now);
    return said(c->m, r == ncclSuccess ? now : r, what);
}

weft_status comm_ready(weft_comm *c)
{
    return state(c, "a communicator");
}

weft_status comm_health(weft_comm *c)
{
    weft_status st = state(c, "a communicator that was at work");
    return st == WEFT_BUSY ? WEFT_OK : st;
}

weft_status comm_register(weft_comm *c, void *base, uint64_t bytes, uint32_t flags)
{
    if (flags)
        return weft_refuse_unknown(c->m->host);
    ncclResult_t r = c->m->nccl.CommRegister(c->comm, base, bytes, &c->handle);
    if (r == ncclSuccess || r == ncclInProgress)
        return WEFT_OK;
    c->handle = NULL;
    return nccl_fail(c->m, WEFT_UNSUPPORTED, "NCCL does not register this memory: %s",
                     c->m->nccl.GetErrorString(r));
}

void comm_abort(weft_comm *c)
{
    if (atomic_exchange(&c->aborted, 1))
        return;
    (void)c->m->nccl.CommAbort(c->comm);
}

/* Orderly close: start and poll ncclCommFinalize, then free the resources. */
static void take_leave(weft_comm *c)
{
    const nccl_api *n = &c->m->nccl;
    ncclResult_t now = n->CommFinalize(c->comm);
    for (int ms = 0; ms < CLOSE_MS && now == ncclInProgress; ms++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        if (n->CommGetAsyncError(c->comm, &now) != ncclSuccess)
            break;
    }
    if (now == ncclSuccess)
        (void)n->CommDestroy(c->comm);
    else
        (void)n->CommAbort(c->comm);
}

void comm_close(weft_comm *c)
{
    if (!c)
        return;
    if (!atomic_load(&c->aborted)) {
        if (c->handle)
            (void)c->m->nccl.CommDeregister(c->comm, c->handle);
        take_leave(c);
    }
    c->m->host->free(c->m->host->ctx, c);
}

weft_status comm_begin(void *module, uint32_t flags)
{
    nccl_module *m = module;
    if (flags)
        return weft_refuse_unknown(m->host);
    weft_status st = said(m, m->nccl.GroupStart(), "beginning a group");
    return st == WEFT_BUSY ? WEFT_OK : st;
}

weft_status comm_end(void *module, uint32_t flags)
{
    nccl_module *m = module;
    if (flags)
        return weft_refuse_unknown(m->host);
    return said(m, m->nccl.GroupEnd(), "launching a group");
}

static bool type_of(uint32_t dtype, ncclDataType_t *out)
{
    static const struct {
        uint32_t ours;
        ncclDataType_t theirs;
    } types[] = {{WEFT_F32, ncclFloat32}, {WEFT_BF16, ncclBfloat16}, {WEFT_F16, ncclFloat16},
                 {WEFT_I32, ncclInt32},   {WEFT_I64, ncclInt64},     {WEFT_U8, ncclUint8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].ours == dtype) {
            *out = types[i].theirs;
            return true;
        }
    return false;
}

typedef struct request {
    weft_comm *c;
    const char *in;
    char *out;
    uint64_t count, size;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    cudaStream_t stream;
} request;

/* Collectives composed of sends and receives; a group issues them together. */
static ncclResult_t pairs(const request *q, uint32_t kind)
{
    const nccl_api *n = &q->c->m->nccl;
    uint64_t part = q->count / q->c->ranks, step = part * q->size;
    int me = (int)q->c->rank, ranks = (int)q->c->ranks, all = kind == WEFT_ALL_TO_ALL;
    ncclResult_t r = ncclSuccess;
    for (int i = 0; i < ranks && (r == ncclSuccess || r == ncclInProgress); i++) {
        int sends = all || (kind == WEFT_GATHER ? i == q->root : me == q->root);
        int receives = all || (kind == WEFT_GATHER ? me == q->root : i == q->root);
        uint64_t give = kind == WEFT_GATHER ? 0 : (uint64_t)i * step;
        uint64_t take = kind == WEFT_SCATTER ? 0 : (uint64_t)i * step;
        if (sends)
            r = n->Send(q->in + give, part, q->type, i, q->c->comm, q->stream);
        if (receives && (r == ncclSuccess || r == ncclInProgress))
            r = n->Recv(q->out + take, part, q->type, i, q->c->comm, q->stream);
    }
    return r;
}

static ncclResult_t enqueue(const request *q, uint32_t kind)
{
    const nccl_api *n = &q->c->m->nccl;
    ncclComm_t c = q->c->comm;
    uint64_t part = q->count / q->c->ranks;
    switch (kind) {
    case WEFT_ALL_REDUCE:
        return n->AllReduce(q->in, q->out, q->count, q->type, q->op, c, q->stream);
    case WEFT_REDUCE_SCATTER:
        return n->ReduceScatter(q->in, q->out, part, q->type, q->op, c, q->stream);
    case WEFT_ALL_GATHER: return n->AllGather(q->in, q->out, part, q->type, c, q->stream);
    case WEFT_BROADCAST:
        return n->Broadcast(q->in, q->out, q->count, q->type, q->root, c, q->stream);
    case WEFT_REDUCE:
        return n->Reduce(q->in, q->out, q->count, q->type, q->op, q->root, c, q->stream);
    case WEFT_SEND: return n->Send(q->in, q->count, q->type, q->root, c, q->stream);
    case WEFT_RECV: return n->Recv(q->out, q->count, q->type, q->root, c, q->stream);
    default: return pairs(q, kind);
    }
}

weft_status comm_call(weft_comm *c, const weft_coll_call *call)
{
    static const ncclRedOp_t ops[] = {ncclSum, ncclSum, ncclMax, ncclMin};
    const uint32_t kind = call->kind;
    request q = {c,           call->in, call->out,       call->count, weft_dtype_size(call->dtype),
                 ncclFloat32, ncclSum,  (int)call->root, call->stream};
    weft_status st = weft_check_args(c->m->host, call, sizeof *call, 0);
    if (st != WEFT_OK)
        return st;
    if (kind < WEFT_ALL_REDUCE || kind > WEFT_RECV || kind == WEFT_BARRIER ||
        !type_of(call->dtype, &q.type) || call->redop >= sizeof ops / sizeof *ops)
        return nccl_fail(c->m, WEFT_UNSUPPORTED, "NCCL has no operation of kind %u, type %u", kind,
                         call->dtype);
    q.op = ops[call->redop];
    st = said(c->m, enqueue(&q, kind), "enqueueing an operation");
    return st == WEFT_BUSY ? WEFT_OK : st;
}
