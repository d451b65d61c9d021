/* driver.h: the NVIDIA driver, opened at run time, so that the plugin loads on any machine. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <weft/plugin.h>

/* The calls that are made. cuda.h renames some of them to their newest version. */
#define GPU_DRIVER_CALLS(X)                                                                        \
    X(cuInit)                                                                                      \
    X(cuDriverGetVersion)                                                                          \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetUuid)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuCtxGetStreamPriorityRange)                                                                 \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuFuncSetAttribute)                                                                          \
    X(cuLaunchKernel)                                                                              \
    X(cuMemGetInfo)                                                                                \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemExportToShareableHandle)                                                                \
    X(cuMemImportFromShareableHandle)                                                              \
    X(cuMemGetHandleForAddressRange)                                                               \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemsetD8Async)                                                                             \
    X(cuStreamCreateWithPriority)                                                                  \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamWaitEvent)                                                                           \
    X(cuStreamWaitValue32)                                                                         \
    X(cuStreamWriteValue32)                                                                        \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuEventCreate)                                                                               \
    X(cuEventDestroy)                                                                              \
    X(cuEventRecord)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuEventSynchronize)                                                                          \
    X(cuEventElapsedTime)                                                                          \
    X(cuGraphInstantiate)                                                                          \
    X(cuGraphDestroy)                                                                              \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphUpload)                                                                               \
    X(cuGraphLaunch)

#define GPU_DRIVER_FIELD(name) __typeof__(name) *name;
struct gpu_driver {
    GPU_DRIVER_CALLS(GPU_DRIVER_FIELD)
    int version; /* 13000: of CUDA 13.0 */
};

/* Open the driver and initialise it, once a process; it is never closed. NULL, with a record of
 * code WEFT_ABSENT, where there is none. [setup] */
const struct gpu_driver *gpu_driver_open(const weft_host *host);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)" into text. */
void gpu_driver_error(const struct gpu_driver *cu, CUresult error, char *text, size_t cap);

#endif
