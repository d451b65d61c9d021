/* device.c: opens and closes a GPU. */
#include "device.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

weft_status gpu_check(weft_device *d, CUresult r, const char *what)
{
    char error[200];
    if (r == CUDA_SUCCESS)
        return WEFT_OK;
    gpu_driver_error(d->cu, r, error, sizeof error);
    return gpu_fail(d->m, r == CUDA_ERROR_OUT_OF_MEMORY ? WEFT_NO_MEMORY : WEFT_IO,
                    "the GPU failed in %s, or in work before it: %s", what, error);
}

weft_status gpu_enter(weft_device *d)
{
    return gpu_check(d, d->cu->cuCtxSetCurrent(d->context), "entering its context");
}

static int32_t count_gpus(const struct gpu_driver *cu)
{
    int n = 0;
    return cu->cuDeviceGetCount(&n) == CUDA_SUCCESS ? n : 0;
}

weft_status gpu_probe(void *module, const weft_conf *conf, int32_t *score)
{
    const struct gpu_module *m = module;
    const struct gpu_driver *cu = gpu_driver_open(m->host);
    (void)conf;
    *score = cu && count_gpus(cu) > 0 ? 100 : 0;
    if (cu && *score == 0)
        (void)!gpu_fail(m, WEFT_ABSENT,
                        "there is an NVIDIA driver, but no GPU that this process may use; "
                        "CUDA_VISIBLE_DEVICES may hide them");
    return WEFT_OK;
}

/* --- libraries --- */

/* DIR/NAME for each directory of a list with colons. */
static void *open_in(const char *dirs, const char *name)
{
    char path[4096];
    void *so = NULL;
    while (!so && *dirs != 0) {
        const size_t n = strcspn(dirs, ":");
        if (n > 0 && snprintf(path, sizeof path, "%.*s/%s", (int)n, dirs, name) < (int)sizeof path)
            so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        dirs += n + (dirs[n] == ':');
    }
    return so;
}

void *gpu_open_library(const weft_conf *conf, const char *const *names)
{
    const char *dirs = conf->text(conf->ctx, "libraries");
    void *so = NULL;
    for (const char *const *name = names; !so && *name; name++) {
        so = open_in(dirs ? dirs : "", *name);
        if (!so)
            so = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    }
    return so;
}

/* --- open --- */

static int32_t attribute(const weft_device *d, CUdevice_attribute what)
{
    int value = 0;
    return d->cu->cuDeviceGetAttribute(&value, what, d->gpu) == CUDA_SUCCESS ? value : 0;
}

weft_status gpu_find(weft_device *d, uint32_t local_rank)
{
    const int32_t n = count_gpus(d->cu);
    if (n == 0)
        return gpu_fail(d->m, WEFT_ABSENT, "there is an NVIDIA driver, but no GPU");
    return gpu_check(d, d->cu->cuDeviceGet(&d->gpu, (int)(local_rank % (uint32_t)n)),
                     "finding a GPU");
}

static weft_status find_gpu(weft_device *d, const weft_device_args *args)
{
    const int32_t n = count_gpus(d->cu);
    weft_status st = gpu_find(d, args->local_rank);
    if (st == WEFT_OK)
        st = gpu_check(d, d->cu->cuDevicePrimaryCtxRetain(&d->context, d->gpu),
                       "making its context");
    if (st != WEFT_OK)
        return st;
    d->processors = attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    d->arch = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
              attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    d->shared = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    if (d->arch < 80)
        return gpu_fail(d->m, WEFT_ABSENT,
                        "the GPU has compute capability %d.%d; the kernels are for 8.0 and later",
                        d->arch / 10, d->arch % 10);
    if (args->local_ranks > (uint32_t)n && args->local_rank == 0)
        d->m->host->log(d->m->host->ctx, WEFT_LOG_WARN,
                        "there are more ranks on this machine than GPUs: they share them");
    return gpu_enter(d);
}

static void describe(weft_device *d)
{
    char name[100] = "GPU";
    size_t free_bytes = 0, bytes = 0;
    (void)!d->cu->cuDeviceGetName(name, sizeof name, d->gpu);
    (void)!d->cu->cuMemGetInfo(&free_bytes, &bytes);
    snprintf(d->text, sizeof d->text,
             "%s, %d multiprocessors, %.0f GiB, driver for CUDA %d.%d, products: %s, attention: %s",
             name, d->processors, (double)bytes / 0x1p30, d->cu->version / 1000,
             d->cu->version % 1000 / 10, gpu_blas_name(d), gpu_sdpa_name(d));
}

static bool says(const weft_conf *conf, const char *key, const char *value)
{
    const char *text = conf->text(conf->ctx, key);
    return text && strcmp(text, value) == 0;
}

static weft_status open_parts(weft_device *d, const weft_device_args *args)
{
    const weft_conf *conf = args->conf;
    const weft_status known =
        weft_check_args(d->m->host, args, sizeof *args, WEFT_SPEC_DETERMINISTIC);
    if (known != WEFT_OK)
        return known;
    d->cu = gpu_driver_open(d->m->host);
    if (!d->cu)
        return WEFT_ABSENT;
    d->deterministic = (args->flags & WEFT_SPEC_DETERMINISTIC) != 0;
    d->graphs = conf->integer(conf->ctx, "graphs") != 0;
    d->tf32 = conf->integer(conf->ctx, "tf32") != 0;
    d->tune = conf->integer(conf->ctx, "tune") != 0 && !d->deterministic;
    weft_status st = find_gpu(d, args);
    if (st == WEFT_OK)
        st = gpu_load_images(d);
    if (st == WEFT_OK && says(conf, "products", "cublaslt"))
        st = gpu_blas_open(d, conf);
    if (st == WEFT_OK && !says(conf, "attention", "own"))
        st = gpu_sdpa_open(d, conf);
    if (st == WEFT_OK)
        describe(d);
    return st;
}

weft_status gpu_open(void *module, const weft_device_args *args, weft_device **out)
{
    struct gpu_module *m = module;
    weft_device *d = m->host->alloc(m->host->ctx, sizeof *d, 0);
    if (!d)
        return gpu_fail(m, WEFT_NO_MEMORY, "no memory for a device's own records");
    d->m = m;
    weft_status st = open_parts(d, args);
    if (st != WEFT_OK) {
        gpu_close(d);
        return st;
    }
    *out = d;
    return WEFT_OK;
}

void gpu_close(weft_device *d)
{
    if (!d)
        return;
    const weft_host *host = d->m->host;
    if (d->context) {
        (void)!d->cu->cuCtxSetCurrent(d->context);
        (void)!d->cu->cuCtxSynchronize();
        while (d->prepared)
            gpu_release(d->prepared);
        gpu_sdpa_close(d);
        gpu_blas_close(d);
        gpu_free_streams(d);
        gpu_free_blocks(d);
        gpu_unload_images(d);
        (void)!d->cu->cuDevicePrimaryCtxRelease(d->gpu);
    }
    host->free(host->ctx, d);
}

const char *gpu_describe(weft_device *d)
{
    return d->text;
}
