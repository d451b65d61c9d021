/* blas.c: opening cuBLASLt. */
#include "blas.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static weft_status find_calls(const struct gpu_module *m, void *so, struct gpu_blas *blas)
{
    static const struct {
        const char *name;
        size_t at;
    } calls[] = {
#define CALL(name) {#name, offsetof(struct gpu_blas, name)},
        GPU_BLAS_CALLS(CALL)};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        void *found = dlsym(so, calls[k].name);
        if (!found)
            return gpu_fail(m, WEFT_ABSENT, "the libcublasLt that is installed has no %s",
                            calls[k].name);
        memcpy((char *)blas + calls[k].at, &found, sizeof found);
    }
    return WEFT_OK;
}

static weft_status start(weft_device *d, struct gpu_blas *blas)
{
    const cublasStatus_t r = blas->cublasLtCreate(&blas->handle);
    if (r != CUBLAS_STATUS_SUCCESS)
        return gpu_fail(d->m, r == CUBLAS_STATUS_ALLOC_FAILED ? WEFT_NO_MEMORY : WEFT_IO,
                        "cuBLASLt does not start: %s", blas->cublasLtGetStatusName(r));
    const size_t version = blas->cublasLtGetVersion();
    snprintf(blas->name, sizeof blas->name, "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    return WEFT_OK;
}

weft_status gpu_blas_open(weft_device *d, const weft_conf *conf)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    void *so = gpu_open_library(conf, names);
    if (!so)
        return gpu_fail(d->m, WEFT_ABSENT,
                        "libcublasLt.so.13 cannot be opened; it comes with the CUDA toolkit: name "
                        "its directory in device.libraries or LD_LIBRARY_PATH");
    d->blas = d->m->host->alloc(d->m->host->ctx, sizeof *d->blas, 0);
    if (!d->blas)
        return gpu_fail(d->m, WEFT_NO_MEMORY, "no memory for the calls of cuBLASLt");
    weft_status st = find_calls(d->m, so, d->blas);
    return st != WEFT_OK ? st : start(d, d->blas);
}

void gpu_blas_close(weft_device *d)
{
    const weft_host *host = d->m->host;
    if (!d->blas)
        return;
    for (struct product_choice *c = d->blas->choices, *next; c; c = next) {
        next = c->next;
        host->free(host->ctx, c);
    }
    if (d->blas->handle)
        d->blas->cublasLtDestroy(d->blas->handle);
    host->free(host->ctx, d->blas);
    d->blas = NULL;
}

const char *gpu_blas_name(const weft_device *d)
{
    return !d->blas ? "own kernels" : d->blas->name;
}

weft_status gpu_blas_refuse(const weft_prepared *p, cublasStatus_t r)
{
    const weft_status code = r == CUBLAS_STATUS_ALLOC_FAILED    ? WEFT_NO_MEMORY
                             : r == CUBLAS_STATUS_NOT_SUPPORTED ? WEFT_UNSUPPORTED
                                                                : WEFT_IO;
    return gpu_fail(p->d->m, code, "op %s, %lld tokens, %lld by %lld: cuBLASLt says %s", p->op->id,
                    (long long)p->z.rows, (long long)p->z.cols, (long long)p->z.inner,
                    p->d->blas->cublasLtGetStatusName(r));
}
