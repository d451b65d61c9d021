/* sdpa_graph.h: attention as cuDNN's graphs; nothing here knows of a device, so that a test builds
 * the same graphs without one. */
#ifndef GPU_SDPA_GRAPH_H
#define GPU_SDPA_GRAPH_H

#include <cudnn_graph.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_SDPA_CALLS(X)                                                                          \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnSetStream)                                                                              \
    X(cudnnGetVersion)                                                                             \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetLastErrorString)                                                                     \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendExecute)

#define SDPA_MADE 160

#define GPU_SDPA_FIELD(name) __typeof__(name) *name;
struct sdpa_calls {
    GPU_SDPA_CALLS(GPU_SDPA_FIELD)
};

struct sdpa_shape {
    int64_t sequences, heads, kv_heads, length, dim;
    cudnnDataType_t type; /* of queries, keys, values and the result */
    bool fused;           /* queries, keys and values beside each other, as [T,3,H,D] */
    bool causal, backward, deterministic;
};

/* Numbers of the tensors that are handed over. Statistics and sums of rows are fp32 [B,H,S]; the
 * accumulator of dq is fp32 [B,H,S,D]; scalars are given by value. */
enum sdpa_tensor {
    SDPA_Q = 1,
    SDPA_K,
    SDPA_V,
    SDPA_O,
    SDPA_STATS,
    SDPA_SCALE,
    SDPA_LEAST, /* what a score becomes that is not seen */
    SDPA_DO,
    SDPA_DQ,
    SDPA_DK,
    SDPA_DV,
    SDPA_SUM,
    SDPA_DQ_SUM, /* not where the result is to be deterministic */
    SDPA_ONE,
    SDPA_TENSORS
};

/* A plan, and the descriptors that it was made of, which live as long. */
struct sdpa_plan {
    cudnnBackendDescriptor_t plan;
    int64_t workspace; /* bytes */
    cudnnBackendDescriptor_t made[SDPA_MADE];
    int nmade;
};

/* The device to plan for: a handle on one, or its properties where there is none. */
struct sdpa_target {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties;
};

/* A plan for the shape with at most `cap` bytes of workspace. On failure `why` has cuDNN's
 * sentence, which may be empty. Free it in either case. */
cudnnStatus_t sdpa_build(const struct sdpa_calls *c, const struct sdpa_target *target,
                         const struct sdpa_shape *shape, int64_t cap, struct sdpa_plan *out,
                         char why[256]);
void sdpa_free(const struct sdpa_calls *c, struct sdpa_plan *p);

#endif
