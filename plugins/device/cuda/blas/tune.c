/* tune.c: selects cuBLASLt's algorithm for a product, and loads each library's code before step 1.
 *
 * The library's heuristic proposes up to CANDIDATES algorithms, best guess first. Each is run on
 * separate memory: once to load its code, then TIMES times; the minimum time decides. The choice is
 * cached for all products of the same shape. Without tuning, and if no memory is left beside the
 * arena, the first candidate is taken; it depends on the library's version alone, so
 * `run.deterministic` gives the same bits in each run.
 *
 * What is not timed is still run once, if there is memory. A library loads a kernel's code at its
 * first run, which may allocate memory and wait until all streams are idle: in a step, while a
 * stream waits for a flag that another rank sets, that could deadlock. Failures also show up while
 * there is still a fallback. */
#include "blas.h"
#include "ops/ops.h"
#include <stdio.h>
#include <string.h>

enum { CANDIDATES = 12, TIMES = 3 };

/* The memory that work is timed on, and what times it. */
struct bench {
    CUdeviceptr memory;
    weft_stream stream;
    CUevent begin, end;
};

static uint64_t whole(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Once a device. */
static void say_no_memory(weft_device *d, uint64_t bytes)
{
    const weft_host *host = d->m->host;
    char text[320];
    if (d->said_no_memory)
        return;
    d->said_no_memory = true;
    snprintf(text, sizeof text,
             "the plan leaves no %.2f GiB of the GPU's memory to try an op on, so libraries load "
             "code during the first step and algorithms are not timed; where ranks wait for each "
             "other that may hang: lower train.microbatch a little",
             (double)bytes / (1 << 30));
    host->log(host->ctx, WEFT_LOG_WARN, text);
}

static weft_status open_bench(weft_device *d, uint64_t bytes, struct bench *b)
{
    const struct gpu_driver *cu = d->cu;
    b->stream.d = d;
    if (cu->cuMemAlloc(&b->memory, bytes) != CUDA_SUCCESS) {
        b->memory = 0;
        say_no_memory(d, bytes);
        return WEFT_NO_MEMORY;
    }
    weft_status st =
        gpu_check(d, cu->cuStreamCreateWithPriority(&b->stream.cu, CU_STREAM_NON_BLOCKING, 0),
                  "making a stream");
    if (st == WEFT_OK)
        st = gpu_check(d, cu->cuEventCreate(&b->begin, CU_EVENT_DEFAULT), "making an event");
    if (st == WEFT_OK)
        st = gpu_check(d, cu->cuEventCreate(&b->end, CU_EVENT_DEFAULT), "making an event");
    if (st == WEFT_OK) /* small numbers, so that sums stay finite: 0x3c3c is 0.011 in bf16 */
        st = gpu_check(d, cu->cuMemsetD8Async(b->memory, 0x3c, bytes, b->stream.cu),
                       "filling memory");
    return st;
}

static void close_bench(const weft_device *d, struct bench *b)
{
    if (b->stream.cu) {
        (void)!d->cu->cuStreamSynchronize(b->stream.cu);
        (void)!d->cu->cuStreamDestroy(b->stream.cu);
    }
    if (b->begin)
        (void)!d->cu->cuEventDestroy(b->begin);
    if (b->end)
        (void)!d->cu->cuEventDestroy(b->end);
    if (b->memory != 0)
        (void)!d->cu->cuMemFree(b->memory);
}

/* Work on the bench's stream; false: it failed. */
typedef bool work(void *what, struct bench *b);

/* Milliseconds of the work at its best of so many times, or a negative number. Before them it runs
 * once; with no times that is all, and the result is 0. */
static float time_work(const weft_device *d, struct bench *b, work *once, void *what, int times)
{
    const struct gpu_driver *cu = d->cu;
    float best = -1;
    if (!once(what, b))
        return -1;
    if (times == 0)
        return cu->cuStreamSynchronize(b->stream.cu) == CUDA_SUCCESS ? 0 : -1;
    for (int k = 0; k < times; k++) {
        float ms = 0;
        if (cu->cuEventRecord(b->begin, b->stream.cu) != CUDA_SUCCESS || !once(what, b) ||
            cu->cuEventRecord(b->end, b->stream.cu) != CUDA_SUCCESS ||
            cu->cuEventSynchronize(b->end) != CUDA_SUCCESS ||
            cu->cuEventElapsedTime(&ms, b->begin, b->end) != CUDA_SUCCESS)
            return -1;
        best = best < 0 || ms < best ? ms : best;
    }
    return best;
}

/* --- a product --- */

struct multiplication {
    const weft_prepared *p;
    const struct product *q;
    struct product_at at;
    void *ws;
};

static bool multiply_once(void *what, struct bench *b)
{
    const struct multiplication *x = what;
    return gpu_multiply(x->p, x->q, &x->at, x->ws, b->stream.cu) == CUBLAS_STATUS_SUCCESS;
}

/* Bytes from the start to each operand; the whole, with the workspace. A matrix that an epilogue
 * reads or writes and one that is added are as large as the result. */
static uint64_t divide(const struct product_key *k, uint64_t to[6])
{
    const uint64_t t = (uint64_t)k->tokens, o = (uint64_t)k->outputs, i = (uint64_t)k->inputs;
    const uint64_t size = weft_dtype_size(k->dt);
    const bool dw = k->form == PRODUCT_DW;
    const uint64_t d =
        whole((dw ? o : t) * (k->form == PRODUCT_Y ? o : i) * weft_dtype_size(k->gt));
    to[0] = whole((dw ? t : o) * i * size);                           /* b */
    to[1] = to[0] + whole(t * (k->form == PRODUCT_Y ? i : o) * size); /* d */
    to[2] = to[1] + d;                                                /* c */
    to[3] = to[2] + (k->added ? d : 0);                               /* what GELU is of */
    to[4] = to[3] + (k->epilogue & EPILOGUE_AUX ? d : 0);             /* bias */
    to[5] = to[4] + whole((o > i ? o : i) * 4);                       /* workspace */
    return to[5] + BLAS_WORKSPACE + BLAS_ALIGNMENT;
}

enum outcome { RUNS, NONE_RUNS, UNTRIED };

/* One that runs, and the fastest if there are several. */
static enum outcome choose(const weft_prepared *p, struct product *q,
                           const cublasLtMatmulHeuristicResult_t *found, int n)
{
    struct bench b = {0};
    uint64_t to[6];
    int best = -1;
    float least = -1;
    const weft_status st = open_bench(p->d, divide(&q->key, to), &b);
    if (st == WEFT_OK) {
        char *m = (char *)(uintptr_t)b.memory;
        struct multiplication x = {.p = p, .q = q, .ws = m + to[5]};
        x.at = (struct product_at){m,         m + to[0], q->key.added ? m + to[2] : NULL,
                                   m + to[1], m + to[4], m + to[3]};
        for (int k = 0; k < n; k++) {
            q->algorithm = found[k].algo;
            const float ms = time_work(p->d, &b, multiply_once, &x, n > 1 ? TIMES : 0);
            if (ms >= 0 && (least < 0 || ms < least)) {
                least = ms;
                best = k;
            }
        }
    }
    close_bench(p->d, &b);
    q->algorithm = found[best < 0 ? 0 : best].algo;
    return st != WEFT_OK ? UNTRIED : best >= 0 ? RUNS : NONE_RUNS;
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
    const uint32_t alignment = OPERAND_ALIGNMENT;
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* none are kept in 16 bits */
    cublasLtMatmulPreference_t wish = NULL;
    int n = 0;
    cublasStatus_t r = blas->cublasLtMatmulPreferenceCreate(&wish);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatmulPreferenceSetAttribute(
            wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatmulPreferenceSetAttribute(
            wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    for (size_t k = 0; r == CUBLAS_STATUS_SUCCESS && k < sizeof alignments / sizeof *alignments;
         k++)
        r = blas->cublasLtMatmulPreferenceSetAttribute(wish, alignments[k], &alignment,
                                                       sizeof alignment);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatmulAlgoGetHeuristic(blas->handle, q->desc, q->a, q->b, q->d, q->d,
                                                 wish, cap, found, &n);
    if (wish)
        blas->cublasLtMatmulPreferenceDestroy(wish);
    int kept = 0;
    for (int k = 0; r == CUBLAS_STATUS_SUCCESS && k < n; k++)
        if (found[k].state == CUBLAS_STATUS_SUCCESS)
            found[kept++] = found[k];
    return kept;
}

const struct product_choice *gpu_chosen(const weft_device *d, const struct product_key *key)
{
    const struct product_choice *c = d->blas->choices;
    while (c && memcmp(&c->key, key, sizeof *key) != 0)
        c = c->next;
    return c;
}

void gpu_remember(const weft_device *d, const struct product_choice *choice)
{
    const weft_host *host = d->m->host;
    struct product_choice *c = host->alloc(host->ctx, sizeof *c, 0);
    if (!c)
        return; /* it is chosen again */
    *c = *choice;
    c->next = d->blas->choices;
    d->blas->choices = c;
}

/* Nothing but a bias behind it: without an algorithm it goes to a kernel of ours. */
static bool is_plain(const struct product_key *k)
{
    return !k->added &&
           (k->epilogue == CUBLASLT_EPILOGUE_DEFAULT || k->epilogue == CUBLASLT_EPILOGUE_BIAS);
}

/* Logs a slow choice, which only the time shows. */
static void say_slow(const weft_prepared *p, const struct product_key *k, const char *why)
{
    const weft_host *host = p->d->m->host;
    char text[320];
    snprintf(text, sizeof text,
             "op %s, %lld tokens, %lld by %lld: cuBLASLt %s, so a kernel without tensor cores does "
             "it, many times slower; sizes that are multiples of 8, as a vocabulary of 50304 in "
             "place of 50257, are what it takes",
             p->op->id, (long long)k->tokens, (long long)k->inputs, (long long)k->outputs, why);
    host->log(host->ctx, WEFT_LOG_WARN, text);
}

weft_status gpu_tune(weft_prepared *p, struct product *q)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    const struct product_choice *known = gpu_chosen(p->d, &q->key);
    if (known) {
        q->algorithm = known->algorithm;
        return known->own ? WEFT_UNSUPPORTED : WEFT_OK;
    }
    const int n = ask(p, q, found, p->d->tune ? CANDIDATES : 1);
    const enum outcome o = n > 0 ? choose(p, q, found, n) : NONE_RUNS;
    if (o == UNTRIED)
        return WEFT_OK;
    gpu_remember(p->d, &(struct product_choice){
                           .key = q->key, .algorithm = q->algorithm, .own = o == NONE_RUNS});
    if (o == NONE_RUNS && is_plain(&q->key))
        say_slow(p, &q->key, n == 0 ? "has no algorithm for it" : "fails at it");
    return o == NONE_RUNS ? WEFT_UNSUPPORTED : WEFT_OK;
}

/* --- an op --- */

struct call {
    weft_prepared *p;
    const void *in[WEFT_MAX_OPERANDS];
    void *out[WEFT_MAX_OPERANDS], *ws;
};

static bool run_once(void *what, struct bench *b)
{
    struct call *c = what;
    return c->p->op->run(c->p, &b->stream, c->in, c->out, c->ws) == WEFT_OK;
}

static uint64_t bytes_of(const weft_operand *o)
{
    uint64_t bytes = weft_dtype_size(o->dtype);
    for (uint32_t k = 0; k < o->rank; k++)
        bytes *= (uint64_t)o->size[k];
    return whole(bytes);
}

/* The op's operands and workspace on memory of our own. */
static weft_status open_call(weft_prepared *p, const weft_opspec *spec, struct call *c,
                             struct bench *b)
{
    uint64_t bytes = p->workspace;
    *c = (struct call){.p = p};
    *b = (struct bench){0};
    for (uint32_t k = 0; k < spec->nin + spec->nout; k++)
        bytes += bytes_of(k < spec->nin ? &spec->in[k] : &spec->out[k - spec->nin]);
    weft_status st = open_bench(p->d, bytes, b);
    if (st != WEFT_OK)
        return st;
    char *at = (char *)(uintptr_t)b->memory;
    for (uint32_t k = 0; k < spec->nin; at += bytes_of(&spec->in[k++]))
        c->in[k] = at;
    for (uint32_t k = 0; k < spec->nout; at += bytes_of(&spec->out[k++]))
        c->out[k] = spec->out[k].dtype != 0 ? at : NULL;
    c->ws = at;
    return WEFT_OK;
}

float gpu_time_op(weft_prepared *p, const weft_opspec *spec)
{
    struct call c;
    struct bench b;
    float ms = -1;
    if (open_call(p, spec, &c, &b) == WEFT_OK)
        ms = time_work(p->d, &b, run_once, &c, TIMES);
    close_bench(p->d, &b);
    return ms;
}

bool gpu_try_op(weft_prepared *p, const weft_opspec *spec)
{
    struct call c;
    struct bench b;
    const weft_status st = open_call(p, spec, &c, &b);
    const bool runs = st != WEFT_OK || time_work(p->d, &b, run_once, &c, 0) >= 0;
    close_bench(p->d, &b);
    return runs;
}
