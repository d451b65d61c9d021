/* par.c: parallel regions of kernels, on the threads that oneDNN uses, too (pool/pool.h). */
#include "cpu.h"
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

struct region {
    weft_device *d;
    cpu_kernel *kernel;
    const struct cpu_job *job;
    int64_t items;
};

/* Zero the upper halves of vector registers, so that code with SSE instructions, such as that of
 * the core and of libm, does not depend on them: it is up to 40 times slower otherwise. gcc does
 * so at the end of a function, but not behind a call with a vector as argument. */
#if defined(__x86_64__)
static __attribute__((target("avx"))) void zero_upper(void)
{
    _mm256_zeroupper();
}
#else
static void zero_upper(void)
{
}
#endif

static void run_items(weft_device *d, cpu_kernel *k, const struct cpu_job *j, int64_t begin,
                      int64_t end, char *scratch)
{
    k(j, begin, end, scratch);
    if (d->kernels->lanes > 4)
        zero_upper();
}

static void body(void *data, int32_t t, int32_t n)
{
    const struct region *r = data;
    const int64_t begin = r->items / n * t + r->items % n * t / n;
    const int64_t end = r->items / n * (t + 1) + r->items % n * (t + 1) / n;
    if (begin < end)
        run_items(r->d, r->kernel, r->job, begin, end,
                  r->d->scratch + (uint64_t)t * r->d->scratch_each);
}

void cpu_par(weft_device *d, cpu_kernel *k, const struct cpu_job *j, int64_t items, int64_t few)
{
    struct region r = {d, k, j, items};
    if (d->threads == 1 || items <= few || items <= 1)
        run_items(d, k, j, 0, items, d->scratch);
    else
        cpu_pool_run(d->pool, body, &r);
}

static void begin(void *ctx, int32_t thread)
{
    const weft_device *d = ctx;
    cpu_topo_pin_worker(&d->topo, thread);
}

weft_status cpu_start_threads(weft_device *d)
{
    const int error = cpu_pool_open(d->threads, begin, d, &d->pool);
    if (!error)
        return WEFT_OK;
    return cpu_fail(d->m, WEFT_NO_MEMORY,
                    "cannot start the %d threads of this rank: %s; is there a limit (ulimit -u, a "
                    "control group)? device.threads sets their number",
                    d->threads, strerror(error));
}

/* oneDNN asks how many threads there are when a product is described. Where it asks another OpenMP
 * runtime, as with a libgomp in LD_PRELOAD, that may give fewer than it promises. */
weft_status cpu_check_threads(const weft_device *d)
{
    const dnnl_dims_t dims = {64, 64}, strides = {64, 1};
    dnnl_memory_desc_t side;
    dnnl_matmul_desc_t md;
    dnnl_primitive_desc_t pd = NULL;
    const uint64_t before = cpu_pool_serve(d->pool, d->threads);
    dnnl_status_t st = dnnl_memory_desc_init_by_strides(&side, 2, dims, dnnl_f32, strides);
    if (st == dnnl_success)
        st = dnnl_matmul_desc_init(&md, &side, &side, NULL, &side);
    if (st == dnnl_success)
        st = dnnl_primitive_desc_create(&pd, &md, NULL, d->engine, NULL);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    const uint64_t asked = cpu_pool_serve(NULL, 1) - before;
    if (st != dnnl_success)
        return cpu_fail(d->m, WEFT_INTERNAL, "oneDNN has no product for this CPU (its status %d)",
                        (int)st);
    if (!asked)
        return cpu_fail(d->m, WEFT_UNSUPPORTED,
                        "oneDNN does not use the threads of this device, because another OpenMP "
                        "runtime was loaded before it: is LD_PRELOAD set?");
    return WEFT_OK;
}

weft_status cpu_grow(weft_device *d, void **p, uint64_t *have, uint64_t bytes)
{
    const weft_host *host = d->m->host;
    if (bytes <= *have)
        return WEFT_OK;
    void *more = host->alloc(host->ctx, bytes, 4096);
    if (!more)
        return cpu_fail(d->m, WEFT_NO_MEMORY, "no memory for %llu bytes of scratch",
                        (unsigned long long)bytes);
    host->free(host->ctx, *p);
    *p = more;
    *have = bytes;
    return WEFT_OK;
}

weft_status cpu_scratch_reserve(weft_device *d, uint64_t each)
{
    const uint64_t padded = (each + 4095) / 4096 * 4096 + 256; /* avoids cache-set conflicts */
    uint64_t have = d->scratch_each * (uint64_t)d->threads;
    void *p = d->scratch;
    if (padded <= d->scratch_each)
        return WEFT_OK;
    weft_status st = cpu_grow(d, &p, &have, padded * (uint64_t)d->threads);
    if (st == WEFT_OK) {
        d->scratch = p;
        d->scratch_each = padded;
    }
    return st;
}
