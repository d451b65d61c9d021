/* tests/double/native.h: what a stream of the device "double" is to a coll plugin: a queue of
 * calls. The two plugins of this folder share it as CUDA's and NCCL's share cudaStream_t. */
#ifndef DOUBLE_NATIVE_H
#define DOUBLE_NATIVE_H

#include <stdint.h>

typedef struct double_native {
    /* Call fn(ctx) when all that was enqueued before has finished; ctx is copied, 128 bytes. */
    void (*enqueue)(struct double_native *self, void (*fn)(void *ctx), const void *ctx,
                    uint32_t bytes);
} double_native;

#define DOUBLE_TAG (UINT64_C(1) << 62) /* set in addresses of the device's memory */

static inline void *double_here(const void *p)
{
    return (void *)((uintptr_t)p & ~(uintptr_t)DOUBLE_TAG);
}

#endif
