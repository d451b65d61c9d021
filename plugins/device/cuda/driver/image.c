/* image.c: the kernels' code, which the build puts into the plugin (images.c), and launches. */
#include "image.h"
#include "gpu.h"
#include <stdio.h>
#include <string.h>

weft_status gpu_load_images(weft_device *d)
{
    for (int i = 0; i < GPU_IMAGES; i++) {
        const CUresult r = d->cu->cuModuleLoadData(&d->images[i], gpu_images[i]);
        if (r != CUDA_SUCCESS && d->cu->version < CUDA_VERSION)
            return gpu_fail(d->m, WEFT_ABSENT,
                            "the NVIDIA driver is for CUDA %d.%d and does not take the kernels, "
                            "which CUDA %d.%d has compiled; install a newer driver, or build with "
                            "an older toolkit",
                            d->cu->version / 1000, d->cu->version % 1000 / 10, CUDA_VERSION / 1000,
                            CUDA_VERSION % 1000 / 10);
        weft_status st = gpu_check(
            d, r, "loading its kernels (a build without nvcc or under sanitizers has none)");
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

void gpu_unload_images(weft_device *d)
{
    for (int i = 0; i < GPU_IMAGES; i++)
        if (d->images[i])
            (void)!d->cu->cuModuleUnload(d->images[i]);
}

weft_status gpu_find_kernel(weft_device *d, const char *name, uint32_t dtype, CUfunction *out)
{
    static const char *const types[] = {"", "_f32", "_bf16", "_f16"};
    char full[64];
    const size_t n = strcspn(name, "*");
    snprintf(full, sizeof full, "%.*s%s", (int)n, name, name[n] == '*' ? types[dtype & 3] : "");
    for (int i = 0; i < GPU_IMAGES; i++)
        if (d->cu->cuModuleGetFunction(out, d->images[i], full) == CUDA_SUCCESS)
            return WEFT_OK;
    return gpu_fail(d->m, WEFT_INTERNAL, "there is no kernel %s", full);
}

weft_status gpu_launch(weft_device *d, CUfunction f, weft_stream *s, struct gpu_grid grid,
                       const void *job)
{
    void *parameters[] = {(void *)(uintptr_t)job}; /* read while launching */
    if (grid.x == 0 || grid.y == 0)
        return WEFT_OK;
    if (grid.x > INT32_MAX || grid.y > UINT16_MAX)
        return gpu_fail(d->m, WEFT_UNSUPPORTED,
                        "a kernel of %lld by %lld blocks is more than a GPU takes",
                        (long long)grid.x, (long long)grid.y);
    return gpu_check(d,
                     d->cu->cuLaunchKernel(f, (unsigned)grid.x, (unsigned)grid.y, 1, grid.threads,
                                           1, 1, grid.shared, s->cu, parameters, NULL),
                     "launching a kernel");
}
