/* driver.c: a double of libcuda, as much of it as the cuda plugins call: one GPU that is a thread
 * of this process. Its kernels are the plugin's own, compiled for the CPU (fiber.h) or by nvcc
 * (ptx.h); an image is anything, and functions are found by name alone. What it cannot show: how a
 * GPU's memory model differs from a CPU's, tensor cores, speed. */
#include "double.h"
#include "kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSORS = 4, SHARED = 232448, SHARED_AT_FIRST = 49152 };

static int the_context;

CUresult cuInit(unsigned flags)
{
    (void)flags;
    const char *fails = getenv("DOUBLE_GPU_FAILS");
    return fails && strcmp(fails, "init") == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult r, const char **out)
{
    *out = r == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
           : r == CUDA_ERROR_NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
                                         : "CUDA_ERROR";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult r, const char **out)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "number %d", (int)r);
    *out = text;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *n)
{
    *n = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
    *out = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int cap, CUdevice d)
{
    (void)d;
    snprintf(name, (size_t)cap, "a double of a GPU");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *out, CUdevice d)
{
    (void)d;
    memset(out, 0xab, sizeof *out);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute what, CUdevice d)
{
    (void)d;
    switch (what) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *out = PROCESSORS; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *out = 9; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *out = SHARED; break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: *out = 1; break;
    default: *out = 0; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d)
{
    (void)d;
    *out = (CUcontext)(void *)&the_context;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d)
{
    (void)d;
    return CUDA_SUCCESS;
}

static _Thread_local CUcontext current;

CUresult cuCtxSetCurrent(CUcontext c)
{
    current = c;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

/* --- code --- */

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    *out = (CUmodule)(void *)(uintptr_t)image;
    return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleUnload(CUmodule m)
{
    (void)m;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    struct kernel *k = kernel_find(name);
    (void)m;
    *out = (CUfunction)(void *)k;
    return k ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value)
{
    struct kernel *k = (struct kernel *)(void *)f;
    if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        (uint64_t)value + k->fixed_shared > SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    k->shared = (uint64_t)value + k->fixed_shared;
    return CUDA_SUCCESS;
}

struct launch {
    const struct kernel *kernel;
    int64_t x, y;
    int threads;
    uint64_t shared;
    _Alignas(16) char job[];
};

/* DOUBLE_GPU_LAUNCHES names a file that each kernel's name goes to when it runs first. */
static void note(const char *kernel)
{
    static const char *known[256];
    const char *path = getenv("DOUBLE_GPU_LAUNCHES");
    size_t k = 0;
    while (k < 255 && known[k] && known[k] != kernel)
        k++;
    if (!path || known[k])
        return;
    known[k] = kernel;
    FILE *f = fopen(path, "a");
    if (f) {
        fprintf(f, "%s\n", kernel);
        fclose(f);
    }
}

static void run_launch(const void *payload)
{
    const struct launch *l = payload;
    note(l->kernel->name);
    kernel_launch(l->kernel, l->job, l->x, l->y, l->threads, l->shared);
}

CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned threads,
                        unsigned threads_y, unsigned threads_z, unsigned shared, CUstream s,
                        void **parameters, void **extra)
{
    const struct kernel *k = (const struct kernel *)(void *)f;
    if (current != (CUcontext)(void *)&the_context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (x == 0 || y == 0 || y > 65535 || z != 1 || threads_y != 1 || threads_z != 1 ||
        threads == 0 || threads > (unsigned)k->threads || extra ||
        shared + k->fixed_shared > (k->shared > SHARED_AT_FIRST ? k->shared : SHARED_AT_FIRST))
        return CUDA_ERROR_INVALID_VALUE;
    struct launch *l = calloc(1, sizeof *l + k->job_size);
    *l = (struct launch){k, x, y, (int)threads, shared};
    memcpy(l->job, parameters[0], k->job_size);
    CUresult r = double_submit(s, run_launch, l, sizeof *l + k->job_size);
    free(l);
    return r;
}
