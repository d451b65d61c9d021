/* run/save/copy.h: copies in host memory, divided among threads.
 *
 * One core does not use the memory bandwidth of a machine. The bytes of all parts count as one
 * sequence, each thread copies an equal range of it, so that the sizes of the parts do not matter.
 * The threads live during the call only: a save is rare, and starting one takes some 20 us. */
#ifndef RUN_SAVE_COPY_H
#define RUN_SAVE_COPY_H

#include <stdint.h>

typedef struct run_copy_part {
    void *to;
    const void *from;
    uint64_t bytes;
} run_copy_part;

/* Copy all parts with at most `threads` threads, this one among them; fewer if there is little to
 * copy. Where a thread cannot be started, this one does its share. */
void run_copy_parts(const run_copy_part *parts, uint32_t n, uint32_t threads);

/* Write zeros to `bytes` at `to` with as many threads, so that the kernel gives it pages now. */
void run_copy_touch(void *to, uint64_t bytes, uint32_t threads);

/* How many threads a rank may use that shares the CPUs of its affinity mask with `sharing` ranks in
 * all. At least 1. */
uint32_t run_copy_threads(uint32_t sharing);

#endif
