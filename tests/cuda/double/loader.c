/* loader.c: as much of libcuda as cuDNN wants for making plans: it pretends to take the code that
 * cuDNN compiles. Nothing can be run with it. */
#include <dlfcn.h>
#include <stddef.h>

static int well(void)
{
    return 0;
}

#define YES(name) int name(void) __attribute__((alias("well")));

YES(cuInit)
YES(cuGetErrorName)
YES(cuGetErrorString)
YES(cuDeviceGet)
YES(cuDeviceGetAttribute)
YES(cuCtxGetCurrent)
YES(cuCtxGetDevice)
YES(cuCtxGetLimit)
YES(cuCtxPopCurrent)
YES(cuCtxPushCurrent)
YES(cuCtxSynchronize)
YES(cuStreamGetCtx)
YES(cuStreamSynchronize)
YES(cuLinkCreate)
YES(cuLinkCreate_v2)
YES(cuLinkAddData)
YES(cuLinkAddData_v2)
YES(cuLinkAddFile_v2)
YES(cuLinkComplete)
YES(cuLinkDestroy)
YES(cuLaunchKernel)
YES(cuLaunchKernelEx)
YES(cuLaunchCooperativeKernel)
YES(cuLibraryLoadFromFile)
YES(cuLibraryUnload)
YES(cuKernelSetAttribute)
YES(cuKernelGetAttribute)
YES(cuFuncSetAttribute)
YES(cuFuncGetAttribute)
YES(cuModuleLoadData)
YES(cuModuleLoadDataEx)
YES(cuModuleLoadFatBinary)
YES(cuModuleGetFunction)
YES(cuModuleGetGlobal_v2)
YES(cuModuleUnload)
YES(cuMemcpyDtoH_v2)
YES(cuTensorMapEncodeTiled)
YES(cuEventQuery)
YES(cuGraphDestroy)
YES(cuDevicePrimaryCtxRetain)
YES(cuDevicePrimaryCtxRelease)
YES(cuDevicePrimaryCtxReset)
YES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
YES(cuOccupancyMaxPotentialClusterSize)

static int some_code;

static int give(void **out)
{
    *out = &some_code;
    return 0;
}

#define GIVES(name) int name(void **out) __attribute__((alias("give")));

GIVES(cuLibraryLoadData)
GIVES(cuLibraryGetKernel)
GIVES(cuKernelGetFunction)

int cuGetExportTable(const void **table, const void *id);
int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return 500; /* CUDA_ERROR_NOT_FOUND */
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *n);
int cuDeviceGetCount(int *n)
{
    *n = 0;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long flags, int *found);
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long flags, int *found)
{
    void *here = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    (void)version;
    (void)flags;
    *out = here ? dlsym(here, name) : NULL;
    if (found)
        *found = !(*out);
    return *out ? 0 : 500;
}

int cuGetProcAddress(const char *name, void **out, int version, unsigned long flags);
int cuGetProcAddress(const char *name, void **out, int version, unsigned long flags)
{
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
