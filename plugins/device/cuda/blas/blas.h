/* blas.h: cuBLASLt, opened at run time, and the description of a matrix product for it. */
#ifndef GPU_BLAS_H
#define GPU_BLAS_H

#include "gpu.h"
#include <cublasLt.h>

#define GPU_BLAS_CALLS(X)                                                                          \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtGetStatusName)                                                                       \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmul)

/* What tells one product from another. No padding: compared and hashed as bytes. */
struct product_key {
    int64_t tokens, outputs, inputs;
    uint32_t form, dt, gt; /* PRODUCT_...; types of operands, and of the result */
    uint32_t accumulate;   /* the result is added to */
    uint32_t added;        /* another matrix is added */
    uint32_t epilogue;     /* a cublasLtEpilogue_t */
    uint32_t tf32, joined;
};

/* What was chosen once: an algorithm, or, under a key that is `joined`, whether an epilogue does
 * what comes behind the product. */
struct product_choice {
    struct product_choice *next;
    struct product_key key;
    cublasLtMatmulAlgo_t algorithm;
    bool fuse, own; /* own: no algorithm runs */
};

#define GPU_BLAS_FIELD(name) __typeof__(name) *name;
struct gpu_blas {
    GPU_BLAS_CALLS(GPU_BLAS_FIELD)
    cublasLtHandle_t handle;
    struct product_choice *choices;
    char name[48];
};

/* A prepared product: D = alpha op(A) op(B) + beta C, column-major as in the library, and an
 * epilogue. */
struct product {
    cublasLtMatmulDesc_t desc; /* NULL: the library is not used */
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    struct product_key key;
    bool own; /* the library has no algorithm: a kernel of ours, if there is no epilogue but a bias
               */
};

/* Where its operands lie, by what they are to a linear layer: A is the weight or x, B is x or dy.
 */
struct product_at {
    const void *a, *b, *c; /* c: what is added; NULL: the result's old value, if anything */
    void *d;
    const void *bias; /* or where the gradient of one goes */
    const void *aux;  /* what GELU is of: written, or read for its gradient */
};

#define BLAS_WORKSPACE (32u << 20) /* what NVIDIA advises for Hopper */
#define BLAS_ALIGNMENT 256         /* of the workspace */
#define OPERAND_ALIGNMENT 64       /* of all addresses: device.h */
#define EPILOGUE_AUX 128u          /* bit of those that write or read what GELU is of */

/* Record what the library says to an op's product. */
weft_status gpu_blas_refuse(const weft_prepared *p, cublasStatus_t st);

/* product.c: q->key says what; without an algorithm q->own is set. drop also what is half made. */
struct product_key gpu_product_key(const weft_prepared *p, uint32_t form, uint32_t gt,
                                   uint32_t epilogue);
weft_status gpu_product_ready(weft_prepared *p, struct product *q);
void gpu_product_drop(const weft_device *d, struct product *q);
weft_status gpu_product_run(const weft_prepared *p, const struct product *q,
                            const struct product_at *at, weft_stream *s, void *ws);

/* tune.c: put the best algorithm into q, or WEFT_UNSUPPORTED, unrecorded, when there is none. */
weft_status gpu_tune(weft_prepared *p, struct product *q);

/* An earlier choice, or NULL; and a new one, with `key` set, to be remembered. */
const struct product_choice *gpu_chosen(const weft_device *d, const struct product_key *key);
void gpu_remember(const weft_device *d, const struct product_choice *choice);

/* Multiply, by the library. */
cublasStatus_t gpu_multiply(const weft_prepared *p, const struct product *q,
                            const struct product_at *at, void *ws, CUstream s);

#endif
