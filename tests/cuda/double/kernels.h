/* kernels.h: what the double of libcuda asks of whoever runs the kernels: fiber.c, compiled for the
 * CPU, or ptx_run.c, as nvcc has compiled them. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kernel {
    const char *name;
    int threads;           /* a block has at most */
    uint64_t job_size;     /* bytes of its parameter */
    uint64_t shared;       /* bytes of shared memory that it may have in all; 0: as without */
    uint64_t fixed_shared; /* ... and those that it has of its own */
};

/* NULL: there is none of this name. */
struct kernel *kernel_find(const char *name);

/* Run all blocks of a launch. What a GPU leaves undefined ends the process with a sentence. */
void kernel_launch(const struct kernel *k, const void *job, int64_t x, int64_t y, int threads,
                   uint64_t shared);

#ifdef __cplusplus
}
#endif

#endif
