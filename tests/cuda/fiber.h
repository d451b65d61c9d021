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

/* --- kernels by name --- */
struct fiber_kernel {
    const char *name;
    void (*entry)(const void *job);
    int threads;       /* a block has at most */
    uint64_t job_size; /* bytes of its parameter */
    struct fiber_kernel *next;
    uint64_t shared; /* bytes of shared memory that a launch may ask for; 0: as many as without */
};
void fiber_add(struct fiber_kernel *k);
struct fiber_kernel *fiber_find(const char *name);

/* Run all blocks of a launch. */
void fiber_launch(const struct fiber_kernel *k, const void *job, int64_t x, int64_t y, int threads,
                  uint64_t shared);

#ifdef __cplusplus
}
#endif

#endif
