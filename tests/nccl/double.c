/* tests/nccl/double.c: doubles of libnccl.so.2 and libcuda.so.1: they write down what is called,
 * and answer as they are told. They show in which order the plugin calls NCCL and what it makes of
 * the answers; of NCCL itself they show nothing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <nccl.h>

#include "double.h"

double_state nccl_double = {.version = 22809};

static ncclResult_t note(const char *fmt, ...)
{
    va_list args;
    size_t used = strlen(nccl_double.calls);
    va_start(args, fmt);
    vsnprintf(nccl_double.calls + used, sizeof nccl_double.calls - used, fmt, args);
    va_end(args);
    return (ncclResult_t)nccl_double.answer;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = nccl_double.version;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 'u', sizeof *id);
    return note("id;");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *c, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    *c = (ncclComm_t)&nccl_double;
    return note("init %d/%d %c blocking=%d ctas=%d;", rank, ranks, id.internal[0], config->blocking,
                config->maxCTAs);
}

ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    (void)config;
    *out = c;
    return note("split %d %d;", color, key);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error)
{
    (void)c;
    *error = (ncclResult_t)nccl_double.state;
    if (nccl_double.busy > 0 && nccl_double.busy--)
        *error = ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    (void)c;
    return note("finalize;");
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    (void)c;
    return note("destroy;");
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    (void)c;
    return note("abort;");
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *base, size_t bytes, void **handle)
{
    (void)c, (void)base;
    *handle = base;
    return note("register %zu;", bytes);
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
    (void)c, (void)handle;
    return note("deregister;");
}

ncclResult_t ncclGroupStart(void)
{
    return note("(");
}

ncclResult_t ncclGroupEnd(void)
{
    return note(")");
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t c, cudaStream_t s)
{
    (void)in, (void)out, (void)c, (void)s;
    return note("all-reduce %zu type %d op %d;", n, type, op);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    (void)in, (void)out, (void)type, (void)op, (void)c, (void)s;
    return note("reduce-scatter %zu;", n);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t s)
{
    (void)in, (void)out, (void)type, (void)c, (void)s;
    return note("all-gather %zu;", n);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t s)
{
    (void)in, (void)out, (void)type, (void)c, (void)s;
    return note("broadcast %zu from %d;", n, root);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t c, cudaStream_t s)
{
    (void)in, (void)out, (void)type, (void)op, (void)c, (void)s;
    return note("reduce %zu to %d;", n, root);
}

ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    (void)type, (void)c, (void)s;
    return note("send %zu to %d from %zu;", n, peer, (size_t)((const char *)in - nccl_double.base));
}

ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    (void)type, (void)c, (void)s;
    return note("recv %zu from %d at %zu;", n, peer, (size_t)((char *)out - nccl_double.base));
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited" : "some error";
}

const char *ncclGetLastError(ncclComm_t c)
{
    (void)c;
    return "rank 3 is gone";
}
