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
 * The bias is an epilogue of y; sums of gradients are the product's own beta. What comes behind a
 * product may be its epilogue too: joined.c. Where the library has no algorithm (16-bit operands
 * whose rows are not aligned, say) a kernel of ours does it. */
#include "blas.h"
#include "ops/ops.h"
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

/* Rows of D as the library sees it: features of a token, or of a weight's row. */
static int64_t rows_of_d(const struct product_key *k)
{
    return k->form == PRODUCT_Y ? k->outputs : k->inputs;
}

static bool has_bias(uint32_t epilogue)
{
    return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

static bool has_aux(uint32_t epilogue)
{
    return (epilogue & EPILOGUE_AUX) != 0;
}

static cublasStatus_t set(const struct gpu_blas *blas, const struct product *q,
                          cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes)
{
    return blas->cublasLtMatmulDescSetAttribute(q->desc, what, value, bytes);
}

/* Pointers that change from call to call. */
static cublasStatus_t point(const struct gpu_blas *blas, const struct product *q, const void *bias,
                            const void *aux)
{
    cublasStatus_t r = CUBLAS_STATUS_SUCCESS;
    if (has_bias(q->key.epilogue))
        r = set(blas, q, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (r == CUBLAS_STATUS_SUCCESS && has_aux(q->key.epilogue))
        r = set(blas, q, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
    return r;
}

/* The pointers' alignment counts when the library is asked for algorithms. */
static cublasStatus_t describe_epilogue(const struct gpu_blas *blas, struct product *q)
{
    const void *somewhere = (const void *)OPERAND_ALIGNMENT;
    const int64_t ld = rows_of_d(&q->key);
    cublasStatus_t r =
        set(blas, q, CUBLASLT_MATMUL_DESC_EPILOGUE, &q->key.epilogue, sizeof q->key.epilogue);
    if (r == CUBLAS_STATUS_SUCCESS && has_aux(q->key.epilogue))
        r = set(blas, q, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    return r != CUBLAS_STATUS_SUCCESS ? r : point(blas, q, somewhere, somewhere);
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
    if (r == CUBLAS_STATUS_SUCCESS && q->key.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        r = describe_epilogue(blas, q);
    return r;
}

static cublasStatus_t describe_matrices(const weft_prepared *p, struct product *q)
{
    const struct gpu_blas *blas = p->d->blas;
    const struct product_key *k = &q->key;
    const uint64_t t = (uint64_t)k->tokens, o = (uint64_t)k->outputs, i = (uint64_t)k->inputs;
    const cudaDataType_t in = type_of(k->dt), out = type_of(k->gt);
    cublasStatus_t r =
        blas->cublasLtMatrixLayoutCreate(&q->a, in, i, k->form == PRODUCT_DW ? t : o, (int64_t)i);
    const uint64_t b_rows = k->form == PRODUCT_Y ? i : o;
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatrixLayoutCreate(&q->b, in, b_rows, t, (int64_t)b_rows);
    const int64_t d_rows = rows_of_d(k);
    if (r == CUBLAS_STATUS_SUCCESS)
        r = blas->cublasLtMatrixLayoutCreate(&q->d, out, (uint64_t)d_rows,
                                             k->form == PRODUCT_DW ? o : t, d_rows);
    return r;
}

struct product_key gpu_product_key(const weft_prepared *p, uint32_t form, uint32_t gt,
                                   uint32_t epilogue)
{
    return (struct product_key){.tokens = p->z.rows,
                                .outputs = p->z.cols,
                                .inputs = p->z.inner,
                                .form = form,
                                .dt = p->z.dt,
                                .gt = gt,
                                .accumulate = (uint32_t)p->z.accumulate,
                                .epilogue = epilogue,
                                .tf32 = p->d->tf32 && p->z.dt == WEFT_F32};
}

/* The leading dimension of what an epilogue keeps is a multiple of eight, by its documentation. */
weft_status gpu_product_ready(weft_prepared *p, struct product *q)
{
    q->own = !p->d->blas || (has_aux(q->key.epilogue) && rows_of_d(&q->key) % 8 != 0);
    if (q->own)
        return WEFT_OK;
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
    if (!q)
        return gpu_fail(p->d->m, WEFT_NO_MEMORY, "op %s: no memory for its product", spec->id);
    q->key = gpu_product_key(p, p->op->form, p->z.gt[0],
                             spec->nin > 2 ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
    p->extra = q;
    weft_status st = gpu_product_ready(p, q);
    if (st != WEFT_OK)
        drop_product(p);
    return st;
}

void gpu_product_drop(const weft_device *d, struct product *q)
{
    const struct gpu_blas *blas = d->blas;
    const cublasLtMatrixLayout_t all[] = {q->a, q->b, q->d};
    if (q->desc)
        blas->cublasLtMatmulDescDestroy(q->desc);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k])
            blas->cublasLtMatrixLayoutDestroy(all[k]);
    *q = (struct product){.own = true};
}

void drop_product(weft_prepared *p)
{
    gpu_product_drop(p->d, p->extra);
    p->d->m->host->free(p->d->m->host->ctx, p->extra);
}

cublasStatus_t gpu_multiply(const weft_prepared *p, const struct product *q,
                            const struct product_at *at, void *ws, CUstream s)
{
    const struct gpu_blas *blas = p->d->blas;
    const float one = 1, beta = q->key.accumulate || q->key.added ? 1 : 0;
    const uintptr_t work = ((uintptr_t)ws + BLAS_ALIGNMENT - 1) & ~(uintptr_t)(BLAS_ALIGNMENT - 1);
    cublasStatus_t r = point(blas, q, at->bias, at->aux);
    if (r != CUBLAS_STATUS_SUCCESS)
        return r;
    return blas->cublasLtMatmul(blas->handle, q->desc, &one, at->a, q->a, at->b, q->b, &beta,
                                at->c ? at->c : at->d, q->d, at->d, q->d, &q->algorithm,
                                (void *)work, BLAS_WORKSPACE, s);
}

/* C [m,n] = A [m,k] B [k,n] by strides. */
static weft_status run_own(const weft_prepared *p, const struct product_key *key,
                           const struct product_at *at, weft_stream *s)
{
    const int64_t t = key->tokens, o = key->outputs, i = key->inputs;
    struct product_job j = {.a = at->b,
                            .b = at->a,
                            .bias = at->bias,
                            .c = at->d,
                            .gt = key->gt,
                            .accumulate = (int32_t)key->accumulate};
    switch (key->form) {
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

weft_status gpu_product_run(const weft_prepared *p, const struct product *q,
                            const struct product_at *at, weft_stream *s, void *ws)
{
    if (q->own)
        return run_own(p, &q->key, at, s);
    const cublasStatus_t r = gpu_multiply(p, q, at, ws, s->cu);
    return r == CUBLAS_STATUS_SUCCESS ? WEFT_OK : gpu_blas_refuse(p, r);
}

GPU_RUN(run_product)
{
    const struct product_at at = {
        .a = in[1], .b = in[0], .d = out[0], .bias = p->nin > 2 ? in[2] : NULL};
    return gpu_product_run(p, p->extra, &at, s, ws);
}
