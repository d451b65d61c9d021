/* blas.h: cuBLASLt, opened at run time, and a matrix product as it knows it. */
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
    uint32_t form, dt, gt, accumulate, bias, tf32;
};

struct product_choice { /* an algorithm that was chosen once */
    struct product_choice *next;
    struct product_key key;
    cublasLtMatmulAlgo_t algorithm;
};

#define GPU_BLAS_FIELD(name) __typeof__(name) *name;
struct gpu_blas {
    GPU_BLAS_CALLS(GPU_BLAS_FIELD)
    cublasLtHandle_t handle;
    struct product_choice *choices;
    char name[48];
};

/* A product made ready: D = alpha op(A) op(B) + beta D, column by column as the library sees it. */
struct product {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    struct product_key key;
    float beta;
    bool own; /* the library has no algorithm: a kernel of ours */
};

#define BLAS_WORKSPACE (32u << 20) /* what NVIDIA advises for Hopper */
#define BLAS_ALIGNMENT 256         /* of the workspace */

/* Record what the library says to an op's product. */
weft_status gpu_blas_refuse(const weft_prepared *p, cublasStatus_t st);

/* tune.c: put the best algorithm into q, or WEFT_UNSUPPORTED, unrecorded, when there is none. */
weft_status gpu_tune(weft_prepared *p, struct product *q);

/* Multiply. */
cublasStatus_t gpu_multiply(const weft_prepared *p, const struct product *q, const void *a,
                            const void *b, void *d, void *ws, CUstream s);

#endif
