/* blas.c: a double of libcublasLt, as much of it as the cuda device calls. It multiplies by naive
 * loops, proposes two algorithms of which the second is as good, none for 16-bit operands whose
 * rows are not aligned nor for the gradient of GELU in fp32, and refuses what the library refuses.
 * Epilogues work on the sum before it is rounded. What runs for the first time loads its code. */
#define _GNU_SOURCE
#include "bits.h"
#include "double.h"
#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct desc {
    int32_t trans_a, trans_b;
    uint32_t epilogue;
    int64_t aux_ld;
    void *bias, *aux;
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};

struct wish {
    uint64_t workspace;
    uint32_t schemes; /* of sums that are formed apart */
};

enum { ROUGH = 76, FIRST, LAST = FIRST + 2, NEEDED = 1 << 20 }; /* algorithms; of the workspace */

#define AS(type, object) ((type *)(void *)(object))

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = calloc(1, 8);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

const char *cublasLtGetStatusName(cublasStatus_t r)
{
    static char text[32];
    snprintf(text, sizeof text, "status %d", (int)r);
    return text;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
        scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = AS(cublasLtMatmulDescOpaque_t, calloc(1, sizeof(struct desc)));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what, const void *from,
                                              size_t bytes)
{
    struct desc *d = AS(struct desc, desc);
    void *to = what == CUBLASLT_MATMUL_DESC_TRANSA                 ? (void *)&d->trans_a
               : what == CUBLASLT_MATMUL_DESC_TRANSB               ? (void *)&d->trans_b
               : what == CUBLASLT_MATMUL_DESC_EPILOGUE             ? (void *)&d->epilogue
               : what == CUBLASLT_MATMUL_DESC_BIAS_POINTER         ? (void *)&d->bias
               : what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER ? (void *)&d->aux
               : what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD      ? (void *)&d->aux_ld
                                                                   : NULL;
    const int wide = to == (void *)&d->bias || to == (void *)&d->aux || to == (void *)&d->aux_ld;
    if (!to || bytes != (wide ? 8 : 4))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    struct layout *l = calloc(1, sizeof *l);
    *l = (struct layout){type, rows, cols, ld};
    *out = AS(cublasLtMatrixLayoutOpaque_t, l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    struct wish *w = calloc(1, sizeof *w);
    w->schemes = 7;
    *out = AS(cublasLtMatmulPreferenceOpaque_t, w);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *from, size_t bytes)
{
    struct wish *w = AS(struct wish, p);
    if (bytes != (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&w->workspace, from, bytes);
    if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        memcpy(&w->schemes, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static int row_is_aligned(const struct layout *l)
{
    return l->type == CUDA_R_32F || l->ld % 8 == 0;
}

static int has_aux(const struct desc *d)
{
    return (d->epilogue & 128) != 0;
}

static int epilogue_is_known(const struct desc *desc, const struct layout *d)
{
    const uint32_t e = desc->epilogue;
    const int known = e == 0 || e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_BIAS ||
                      e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS ||
                      e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
                      e == CUBLASLT_EPILOGUE_BGRADB ||
                      (e == CUBLASLT_EPILOGUE_DGELU && d->type != CUDA_R_32F);
    const int bias = (e & 4) != 0 || e == CUBLASLT_EPILOGUE_BGRADB;
    return known && (!bias || desc->bias) &&
           (!has_aux(desc) || (desc->aux && (uintptr_t)desc->aux % 16 == 0 &&
                               desc->aux_ld % 8 == 0 && desc->aux_ld >= (int64_t)d->rows));
}

/* Algorithms are FIRST, FIRST + 1, and one that keeps partial sums in the result's type, which is
 * offered first where it is allowed and whose results are wrong. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int cap,
                                              cublasLtMatmulHeuristicResult_t found[], int *n)
{
    (void)h;
    (void)c;
    const struct wish *w = AS(struct wish, wish);
    int next = (w->schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0 ? ROUGH : FIRST;
    *n = 0;
    if (!row_is_aligned(AS(struct layout, a)) || !row_is_aligned(AS(struct layout, b)) ||
        !row_is_aligned(AS(struct layout, d)) ||
        !epilogue_is_known(AS(struct desc, desc), AS(struct layout, d)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (w->workspace < NEEDED)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (; *n < cap && next < LAST; ++*n, next++) {
        memset(&found[*n], 0, sizeof found[*n]);
        found[*n].algo.data[0] = (uint64_t)next;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* What tells the code of two products from each other. No padding: compared as bytes. */
struct code {
    uint64_t epilogue, trans_a, trans_b, in, out, rows, cols, algorithm;
};

/* Has it run before? If not, load it; false: that cannot be done now. */
static int is_loaded(const struct code *c, int load_code(void))
{
    static struct code known[4096];
    static size_t n;
    for (size_t k = 0; k < n; k++)
        if (memcmp(&known[k], c, sizeof *c) == 0)
            return 1;
    if (load_code() != 0 || n == sizeof known / sizeof *known)
        return 0;
    known[n++] = *c;
    return 1;
}

struct multiply {
    struct desc desc;
    struct layout a, b, d;
    const void *pa, *pb, *pc;
    void *pd, *workspace;
    uint64_t workspace_bytes;
    float beta;
};

static float element(const void *p, cudaDataType_t type, int64_t i)
{
    if (type == CUDA_R_32F)
        return ((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return type == CUDA_R_16F ? from_f16(bits) : as_float((uint32_t)bits << 16);
}

static void put_element(void *p, cudaDataType_t type, int64_t i, float x)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = (uint16_t)(type == CUDA_R_16F ? f16_bits(x) : bf16_bits(x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double th = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + th) + 0.5 * x * (1 - th * th) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/* What becomes of element [r, c] of D before it is rounded. */
static float finish(const struct multiply *m, int64_t r, int64_t c, float x)
{
    const uint32_t e = m->desc.epilogue;
    const int64_t at = c * m->desc.aux_ld + r;
    if (e & 4)
        x += element(m->desc.bias, m->d.type, r);
    if (e == CUBLASLT_EPILOGUE_DGELU)
        return (float)(x * gelu_slope(element(m->desc.aux, m->d.type, at)));
    if (has_aux(&m->desc))
        put_element(m->desc.aux, m->d.type, at, x);
    return e & 32 ? (float)gelu(x) : x;
}

/* The sums over k of the columns of op(B), which the epilogue writes and never adds to. */
static void sum_columns(const struct multiply *m, int64_t k, int64_t bk, int64_t bc)
{
    for (int64_t c = 0; c < (int64_t)m->d.cols; c++) {
        double sum = 0;
        for (int64_t i = 0; i < k; i++)
            sum += (double)element(m->pb, m->b.type, i * bk + c * bc);
        put_element(m->desc.bias, m->d.type, c, (float)sum);
    }
}

static void run_multiply(const void *payload)
{
    const struct multiply *m = (const struct multiply *)payload;
    const int64_t rows = (int64_t)m->d.rows, cols = (int64_t)m->d.cols;
    const int64_t k = (int64_t)(m->desc.trans_a ? m->a.rows : m->a.cols);
    const int64_t ar = m->desc.trans_a ? m->a.ld : 1, ak = m->desc.trans_a ? 1 : m->a.ld;
    const int64_t bk = m->desc.trans_b ? m->b.ld : 1, bc = m->desc.trans_b ? 1 : m->b.ld;
    memset(m->workspace, 0xff, m->workspace_bytes < 4096 ? m->workspace_bytes : 4096);
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++)
                sum += (double)element(m->pa, m->a.type, r * ar + i * ak) *
                       (double)element(m->pb, m->b.type, i * bk + c * bc);
            float x = (float)sum;
            if (m->beta != 0)
                x += m->beta * element(m->pc, m->d.type, c * m->d.ld + r);
            put_element(m->pd, m->d.type, c * m->d.ld + r, finish(m, r, c, x));
        }
    if (m->desc.epilogue == CUBLASLT_EPILOGUE_BGRADB)
        sum_columns(m, k, bk, bc);
}

static void run_rough(const void *payload)
{
    const struct multiply *m = (const struct multiply *)payload;
    for (int64_t c = 0; c < (int64_t)m->d.cols; c++)
        for (int64_t r = 0; r < (int64_t)m->d.rows; r++)
            put_element(m->pd, m->d.type, c * m->d.ld + r, NAN);
}

typedef int submit_call(cudaStream_t s, void (*run)(const void *payload), const void *payload,
                        uint64_t bytes);

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes,
                              cudaStream_t s)
{
    const struct multiply m = {*AS(struct desc, desc),
                               *AS(struct layout, la),
                               *AS(struct layout, lb),
                               *AS(struct layout, ld),
                               a,
                               b,
                               c,
                               d,
                               workspace,
                               bytes,
                               *(const float *)beta};
    (void)h;
    if (*(const float *)alpha != 1 || lc != ld || (uintptr_t)c % 16 != 0 ||
        !epilogue_is_known(&m.desc, &m.d) || (uintptr_t)workspace % 256 != 0 ||
        algorithm->data[0] < ROUGH || algorithm->data[0] >= LAST || bytes < NEEDED ||
        (uintptr_t)a % 16 != 0 || (uintptr_t)b % 16 != 0 || (uintptr_t)d % 16 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    submit_call *submit;
    int (*load_code)(void);
    *(void **)&submit = double_call("double_submit");
    *(void **)&load_code = double_call("double_load_code");
    if (!submit || !load_code)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const struct code code = {
        m.desc.epilogue,    (uint64_t)m.desc.trans_a, (uint64_t)m.desc.trans_b,
        (uint64_t)m.a.type, (uint64_t)m.d.type,       m.d.rows,
        m.d.cols,           algorithm->data[0]};
    if (!is_loaded(&code, load_code))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return submit(s, algorithm->data[0] == ROUGH ? run_rough : run_multiply, &m, sizeof m) == 0
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
