/* par.c: parallel regions in oneDNN's thread pool.
 *
 * gcc compiles `#pragma omp parallel` to a call of GOMP_parallel. It is called directly, not by the
 * pragma, because clang would link a second runtime with a thread pool of its own. */
#include "cpu.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void omp_set_num_threads(int n);

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

static void body(void *data)
{
    const struct region *r = data;
    const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
    if (t > 0)
        cpu_topo_pin_worker(&r->d->topo, (int32_t)t);
    const int64_t begin = r->items / n * t + r->items % n * t / n;
    const int64_t end = r->items / n * (t + 1) + r->items % n * (t + 1) / n;
    if (begin < end)
        run_items(r->d, r->kernel, r->job, begin, end,
                  r->d->scratch + (uint64_t)t * r->d->scratch_each);
}

/* Use all threads or one: libgomp ends the threads that a smaller region does not use. */
void cpu_par(weft_device *d, cpu_kernel *k, const struct cpu_job *j, int64_t items, int64_t few)
{
    struct region r = {d, k, j, items};
    if (d->threads == 1 || items <= few || items <= 1)
        run_items(d, k, j, 0, items, d->scratch);
    else
        GOMP_parallel(body, &r, (unsigned)d->threads, 0);
}

void cpu_threads_for_products(int32_t n)
{
    omp_set_num_threads(n);
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
