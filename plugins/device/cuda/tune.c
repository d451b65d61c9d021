/* tune.c: which of cuBLASLt's algorithms for a product.
 *
 * The library's heuristic names up to CANDIDATES of them, best guess first. Each is run on memory
 * of our own: once to load its code, then TIMES times; the least time decides. A choice is
 * remembered for all products of the same shape. Without tuning, and where there is no memory left
 * beside the arena, the first guess is taken, which depends on the library's version alone: so
 * `run.deterministic` gives the same bits in each run. */
#include "blas.h"
#include <string.h>

enum { CANDIDATES = 12, TIMES = 3 };

/* The memory that candidates are timed on, and what times them. */
struct bench {
    CUdeviceptr memory;
    uint64_t a, b, d, bias, ws; /* offsets */
    CUstream stream;
    CUevent begin, end;
};

static uint64_t matrix_bytes(int64_t rows, int64_t cols, uint32_t dtype)
{
    return ((uint64_t)rows * (uint64_t)cols * weft_dtype_size(dtype) + 255) / 256 * 256;
}

static weft_status open_bench(const weft_prepared *p, const struct product *q, struct bench *b)
{
    weft_device *d = p->d;
    const struct gpu_driver *cu = d->cu;
    const int64_t t = p->z.rows, o = p->z.cols, i = p->z.inner;
    const bool dw = q->key.form == 3;
    b->b = matrix_bytes(dw ? t : o, i, p->z.dt);
    b->d = b->b + matrix_bytes(t, q->key.form == 1 ? i : o, p->z.dt);
    b->bias = b->d + matrix_bytes(dw ? o : t, q->key.form == 1 ? o : i, p->z.gt[0]);
    b->ws = b->bias + matrix_bytes(1, o, p->z.dt);
    const uint64_t bytes = b->ws + BLAS_WORKSPACE + BLAS_ALIGNMENT;
    if (cu->cuMemAlloc(&b->memory, bytes) != CUDA_SUCCESS)
        return WEFT_NO_MEMORY;
    weft_status st =
        gpu_check(d, cu->cuStreamCreateWithPriority(&b->stream, CU_STREAM_NON_BLOCKING, 0),
                  "making a stream");
    if (st == WEFT_OK)
        st = gpu_check(d, cu->cuEventCreate(&b->begin, CU_EVENT_DEFAULT), "making an event");
    if (st == WEFT_OK)
        st = gpu_check(d, cu->cuEventCreate(&b->end, CU_EVENT_DEFAULT), "making an event");
    if (st == WEFT_OK) /* small numbers, so that sums stay finite: 0x3c3c is 0.011 in bf16 */
        st = gpu_check(d, cu->cuMemsetD8Async(b->memory, 0x3c, b->ws, b->stream), "filling memory");
    return st;
}

static void close_bench(const weft_device *d, struct bench *b)
{
    if (b->stream != NULL) {
        (void)!d->cu->cuStreamSynchronize(b->stream);
        (void)!d->cu->cuStreamDestroy(b->stream);
    }
    if (b->begin != NULL)
        (void)!d->cu->cuEventDestroy(b->begin);
    if (b->end != NULL)
        (void)!d->cu->cuEventDestroy(b->end);
    if (b->memory != 0)
        (void)!d->cu->cuMemFree(b->memory);
}

static bool place_bias(const weft_prepared *p, const struct product *q, const struct bench *b)
{
    const void *at = (const void *)(uintptr_t)(b->memory + b->bias);
    return !q->key.bias ||
           p->d->blas->cublasLtMatmulDescSetAttribute(q->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                      &at, sizeof at) == CUBLAS_STATUS_SUCCESS;
}

static bool run_once(const weft_prepared *p, const struct product *q, const struct bench *b)
{
    char *at = (char *)(uintptr_t)b->memory;
    return gpu_multiply(p, q, at + b->a, at + b->b, at + b->d, at + b->ws, b->stream) ==
           CUBLAS_STATUS_SUCCESS;
}

/* Milliseconds of the algorithm in q at its best, or a negative number. */
static float time_algorithm(const weft_prepared *p, const struct product *q, const struct bench *b)
{
    const struct gpu_driver *cu = p->d->cu;
    float best = -1;
    if (!run_once(p, q, b))
        return -1;
    for (int k = 0; k < TIMES; k++) {
        float ms = 0;
        if (cu->cuEventRecord(b->begin, b->stream) != CUDA_SUCCESS || !run_once(p, q, b) ||
            cu->cuEventRecord(b->end, b->stream) != CUDA_SUCCESS ||
            cu->cuEventSynchronize(b->end) != CUDA_SUCCESS ||
            cu->cuEventElapsedTime(&ms, b->begin, b->end) != CUDA_SUCCESS)
            return -1;
        best = best < 0 || ms < best ? ms : best;
    }
    return best;
}

static void choose_by_time(const weft_prepared *p, struct product *q,
                           const cublasLtMatmulHeuristicResult_t *found, int n)
{
    struct bench b = {0};
    int best = 0;
    float least = -1;
    if (open_bench(p, q, &b) == WEFT_OK && place_bias(p, q, &b))
        for (int k = 0; k < n; k++) {
            q->algorithm = found[k].algo;
            const float ms = time_algorithm(p, q, &b);
            if (ms >= 0 && (least < 0 || ms < least)) {
                least = ms;
                best = k;
            }
        }
    close_bench(p->d, &b);
    q->algorithm = found[best].algo;
}

/* What the library proposes for operands and workspace as aligned as ours are. */
static int ask(const weft_prepared *p, const struct product *q,
               cublasLtMatmulHeuristicResult_t *found, int cap)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const struct gpu_blas *blas = p->d->blas;
    const uint64_t workspace = BLAS_WORKSPACE;
    const uint32_t alignment = 64;
    cublasLtMatmulPreference_t wish = NULL;
    int n = 0;
    cublasStatus_t r = blas->cublasLtMatmulPreferenceCreate(&wish);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatmulPreferenceSetAttribute(
            wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    for (size_t k = 0; r == CUBLAS_STATUS_SUCCESS && k < sizeof alignments / sizeof *alignments;
         k++)
        r = blas->cublasLtMatmulPreferenceSetAttribute(wish, alignments[k], &alignment,
                                                       sizeof alignment);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatmulAlgoGetHeuristic(blas->handle, q->desc, q->a, q->b, q->d, q->d,
                                                 wish, cap, found, &n);
    if (wish != NULL)
        blas->cublasLtMatmulPreferenceDestroy(wish);
    int kept = 0;
    for (int k = 0; r == CUBLAS_STATUS_SUCCESS && k < n; k++)
        if (found[k].state == CUBLAS_STATUS_SUCCESS)
            found[kept++] = found[k];
    return kept;
}

static void remember(const weft_prepared *p, const struct product *q)
{
    const weft_host *host = p->d->m->host;
    struct product_choice *c = host->alloc(host->ctx, sizeof *c, 0);
    if (c == NULL)
        return; /* it is found again */
    *c = (struct product_choice){p->d->blas->choices, q->key, q->algorithm};
    p->d->blas->choices = c;
}

weft_status gpu_tune(weft_prepared *p, struct product *q)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    for (const struct product_choice *c = p->d->blas->choices; c != NULL; c = c->next)
        if (memcmp(&c->key, &q->key, sizeof q->key) == 0) {
            q->algorithm = c->algorithm;
            return WEFT_OK;
        }
    const int n = ask(p, q, found, p->d->tune ? CANDIDATES : 1);
    if (n == 0)
        return WEFT_UNSUPPORTED;
    q->algorithm = found[0].algo;
    if (p->d->tune && n > 1)
        choose_by_time(p, q, found, n);
    remember(p, q);
    return WEFT_OK;
}
