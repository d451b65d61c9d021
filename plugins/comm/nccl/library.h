/* library.h: the functions of libnccl and of the driver that are used, opened at run time. Without
 * them the plugin still loads, lists its options and reports what is missing. */
#ifndef NCCL_LIBRARY_H
#define NCCL_LIBRARY_H

#include <weft/coll.h>

#include <nccl.h>

typedef struct nccl_api {
    ncclResult_t (*GetVersion)(int *version);
    ncclResult_t (*GetUniqueId)(ncclUniqueId *id);
    ncclResult_t (*CommInitRankConfig)(ncclComm_t *c, int ranks, ncclUniqueId id, int rank,
                                       ncclConfig_t *config);
    ncclResult_t (*CommSplit)(ncclComm_t c, int color, int key, ncclComm_t *out,
                              ncclConfig_t *config);
    ncclResult_t (*CommGetAsyncError)(ncclComm_t c, ncclResult_t *error);
    ncclResult_t (*CommFinalize)(ncclComm_t c);
    ncclResult_t (*CommDestroy)(ncclComm_t c);
    ncclResult_t (*CommAbort)(ncclComm_t c);
    ncclResult_t (*CommRegister)(ncclComm_t c, void *base, size_t bytes, void **handle);
    ncclResult_t (*CommDeregister)(ncclComm_t c, void *handle);
    ncclResult_t (*GroupStart)(void);
    ncclResult_t (*GroupEnd)(void);
    ncclResult_t (*AllReduce)(const void *in, void *out, size_t n, ncclDataType_t type,
                              ncclRedOp_t op, ncclComm_t c, cudaStream_t s);
    ncclResult_t (*ReduceScatter)(const void *in, void *out, size_t n, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t c, cudaStream_t s);
    ncclResult_t (*AllGather)(const void *in, void *out, size_t n, ncclDataType_t type,
                              ncclComm_t c, cudaStream_t s);
    ncclResult_t (*Broadcast)(const void *in, void *out, size_t n, ncclDataType_t type, int root,
                              ncclComm_t c, cudaStream_t s);
    ncclResult_t (*Reduce)(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op,
                           int root, ncclComm_t c, cudaStream_t s);
    ncclResult_t (*Send)(const void *in, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                         cudaStream_t s);
    ncclResult_t (*Recv)(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                         cudaStream_t s);
    const char *(*GetErrorString)(ncclResult_t result);
    const char *(*GetLastError)(
        ncclComm_t c); /* the last error of the library, not of a communicator */
} nccl_api;

/* Driver functions (cuda.h): a communicator belongs to the CUDA context of the thread that opens
 * it. */
typedef struct driver_api {
    int (*cuInit)(unsigned flags);
    int (*cuDeviceGetCount)(int *count);
    int (*cuStreamGetCtx)(void *stream, void **context);
    int (*cuCtxSetCurrent)(void *context);
} driver_api;

typedef struct nccl_module {
    const weft_host *host;
    nccl_api nccl;
    driver_api driver;
    int loaded, version;
} nccl_module;

/* Open both, once. WEFT_ABSENT and an error message if one is missing or too old. */
weft_status nccl_load(nccl_module *m);

weft_status nccl_fail(const nccl_module *m, weft_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
