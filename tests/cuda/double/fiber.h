/* fiber.h: a GPU's threads on one thread of a CPU, to run the cuda device's kernels without a GPU.
 *
 * Blocks run one after another. The threads of a block are fibers, each with a stack; one runs
 * until it ends or waits, at a barrier or in a shuffle, for the others. The order of blocks and
 * fibers is turned around from launch to launch, so that a kernel whose result depends on it
 * differs from itself. What a GPU leaves undefined (a shuffle with a thread that has ended, a
 * barrier that some never reach, an address that is not aligned, too many threads) ends the process
 * with a sentence.
 */
#ifndef FIBER_H
#define FIBER_H

#include "kernels.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the running thread is. */
struct fiber_place {
    int thread, threads;
    int64_t block, block_y, blocks;
    char *shared;
};
extern struct fiber_place fiber_now;

void fiber_sync_block(void);
void fiber_sync_warp(void);
float fiber_shuffle_xor(float x, int mask);
void fiber_check_aligned(const void *p, uintptr_t to);

struct fiber_kernel {
    struct kernel kernel; /* first, so that one is the other */
    void (*entry)(const void *job);
    struct fiber_kernel *next;
};
void fiber_add(struct fiber_kernel *k);

#ifdef __cplusplus
}
#endif

#endif
