/* product.c: linear and its gradients: y [T,O] = x [T,I] w [O,I]' + b, dx = dy w, dw = dy' x.
 *
 * cuBLASLt sees matrices column by column, so a row-major one is its transpose there, and each of
 * the three is D' = B' A':
 *
 *         A           B          D
 *   y     w' (I x O)  x  (I x T)  O x T    A transposed
 *   dx    w  (I x O)  dy (O x T)  I x T
 *   dw    x  (I x T)  dy (O x T)  I x O    B transposed
 *
 * The bias is an epilogue of y; sums of gradients are the product's own beta. Where the library has
 * no algorithm (16-bit operands whose rows are not aligned, say) a kernel of ours does it. */
#include "blas.h"
#include "ops.h"
#include <string.h>

GPU_PLAN(plan_product)
{
    (void)m;
    (void)op;
    (void)spec;
    z->rows = match->size['T' - 'A'];
    z->cols = match->size['O' - 'A'];
    z->inner = match->size['I' - 'A'];
    *workspace = BLAS_WORKSPACE + BLAS_ALIGNMENT;
    return WEFT_OK;
}

static cudaDataType_t type_of(uint32_t dtype)
{
    return dtype == WEFT_BF16 ? CUDA_R_16BF : dtype == WEFT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static cublasStatus_t set(const struct gpu_blas *blas, struct product *q,
                          cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes)
{
    return blas->cublasLtMatmulDescSetAttribute(q->desc, what, value, bytes);
}

static cublasStatus_t describe_product(const weft_prepared *p, struct product *q)
{
    const struct gpu_blas *blas = p->d->blas;
    const cublasOperation_t turned = CUBLAS_OP_T;
    const bool fast = q->key.tf32 != 0;
    cublasStatus_t r = blas->cublasLtMatmulDescCreate(
        &q->desc, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (r == CUBLAS_STATUS_SUCCESS && q->key.form == PRODUCT_Y)
        r = set(blas, q, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
    if (r == CUBLAS_STATUS_SUCCESS && q->key.form == PRODUCT_DW)
        r = set(blas, q, CUBLASLT_MATMUL_DESC_TRANSB, &turned, sizeof turned);
    if (r == CUBLAS_STATUS_SUCCESS && q->key.bias) {
        const cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS;
        const void *somewhere = (const void *)4096; /* its alignment counts */
        r = set(blas, q, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias);
        if (r == CUBLAS_STATUS_SUCCESS)
            r = set(blas, q, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &somewhere, sizeof somewhere);
    }
    return r;
}

static cublasStatus_t describe_matrices(const weft_prepared *p, struct product *q)
{
    const struct gpu_blas *blas = p->d->blas;
    const uint64_t t = (uint64_t)p->z.rows, o = (uint64_t)p->z.cols, i = (uint64_t)p->z.inner;
    const cudaDataType_t in = type_of(p->z.dt), out = type_of(p->z.gt[0]);
    const uint32_t form = q->key.form;
    cublasStatus_t r =
        blas->cublasLtMatrixLayoutCreate(&q->a, in, i, form == PRODUCT_DW ? t : o, (int64_t)i);
    const uint64_t b_rows = form == PRODUCT_Y ? i : o;
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatrixLayoutCreate(&q->b, in, b_rows, t, (int64_t)b_rows);
    const uint64_t d_rows = form == PRODUCT_Y ? o : i, d_cols = form == PRODUCT_DW ? o : t;
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatrixLayoutCreate(&q->d, out, d_rows, d_cols, (int64_t)d_rows);
    return r;
}

static weft_status ready_library(weft_prepared *p, struct product *q)
{
    cublasStatus_t r = describe_product(p, q);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = describe_matrices(p, q);
    if (r != CUBLAS_STATUS_SUCCESS)
        return gpu_blas_refuse(p, r);
    weft_status st = gpu_tune(p, q);
    q->own = st == WEFT_UNSUPPORTED;
    return q->own ? WEFT_OK : st;
}

weft_status ready_product(weft_prepared *p, const weft_opspec *spec)
{
    const weft_host *host = p->d->m->host;
    struct product *q = host->alloc(host->ctx, sizeof *q, 0);
    if (q == NULL)
        return gpu_fail(p->d->m, WEFT_NO_MEMORY, "op %s: no memory for its product", spec->id);
    q->key = (struct product_key){p->z.rows,
                                  p->z.cols,
                                  p->z.inner,
                                  p->op->form,
                                  p->z.dt,
                                  p->z.gt[0],
                                  (uint32_t)p->z.accumulate,
                                  spec->nin > 2,
                                  p->d->tf32 && p->z.dt == WEFT_F32};
    q->beta = p->z.accumulate ? 1 : 0;
    q->own = p->d->blas == NULL;
    p->extra = q;
    weft_status st = q->own ? WEFT_OK : ready_library(p, q);
    if (st != WEFT_OK)
        drop_product(p);
    return st;
}

void drop_product(weft_prepared *p)
{
    struct product *q = p->extra;
    const struct gpu_blas *blas = p->d->blas;
    if (q->desc != NULL)
        blas->cublasLtMatmulDescDestroy(q->desc);
    const cublasLtMatrixLayout_t all[] = {q->a, q->b, q->d};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k] != NULL)
            blas->cublasLtMatrixLayoutDestroy(all[k]);
    p->d->m->host->free(p->d->m->host->ctx, q);
}

cublasStatus_t gpu_multiply(const weft_prepared *p, const struct product *q, const void *a,
                            const void *b, void *d, void *ws, CUstream s)
{
    const float one = 1;
    const uintptr_t at = ((uintptr_t)ws + BLAS_ALIGNMENT - 1) & ~(uintptr_t)(BLAS_ALIGNMENT - 1);
    return p->d->blas->cublasLtMatmul(p->d->blas->handle, q->desc, &one, a, q->a, b, q->b, &q->beta,
                                      d, q->d, d, q->d, &q->algorithm, (void *)at, BLAS_WORKSPACE,
                                      s);
}

/* C [m,n] = A [m,k] B [k,n] by strides. */
static weft_status run_own(const weft_prepared *p, weft_stream *s, const void *const *in,
                           void *const *out)
{
    const int64_t t = p->z.rows, o = p->z.cols, i = p->z.inner;
    struct product_job j = {.a = in[0],
                            .b = in[1],
                            .bias = p->nin > 2 ? in[2] : NULL,
                            .c = out[0],
                            .gt = p->z.gt[0],
                            .accumulate = p->z.accumulate};
    switch (p->op->form) {
    case PRODUCT_Y:
        j.m = t, j.n = o, j.k = i, j.a_row = i, j.a_k = 1, j.b_col = i, j.b_k = 1;
        break;
    case PRODUCT_DX:
        j.m = t, j.n = i, j.k = o, j.a_row = o, j.a_k = 1, j.b_col = 1, j.b_k = i;
        break;
    default: j.m = o, j.n = i, j.k = t, j.a_row = 1, j.a_k = o, j.b_col = 1, j.b_k = i; break;
    }
    const struct gpu_grid grid = {(j.n + 63) / 64, (j.m + 63) / 64, ROW_BLOCK, 0};
    return gpu_launch(p->d, p->f[0], s, grid, &j);
}

GPU_RUN(run_product)
{
    struct product *q = p->extra;
    cublasStatus_t r = CUBLAS_STATUS_SUCCESS;
    if (q->own)
        return run_own(p, s, in, out);
    if (q->key.bias)
        r = set(p->d->blas, q, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &in[2], sizeof in[2]);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = gpu_multiply(p, q, in[1], in[0], out[0], ws, s->cu);
    return r == CUBLAS_STATUS_SUCCESS ? WEFT_OK : gpu_blas_refuse(p, r);
}
