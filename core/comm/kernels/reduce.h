/* comm/kernels/reduce.h: to[] = from[0] op from[1] op ..., element by element, in this order.
 *
 * 16-bit floats are combined in fp32 and rounded once at the end; integer sums wrap; max and min of
 * floats propagate NaN. All sets of kernels are one source compiled for different levels of the
 * instruction set, and give the same bits. */
#ifndef COMM_KERNELS_REDUCE_H
#define COMM_KERNELS_REDUCE_H

#include "comm/kernels/code.h"

#include <weft/coll.h>

#define REDUCE_BLOCK 2048

/* A destination may be equal to a source, but not overlap one otherwise. One destination, `n` >= 1
 * sources, `count` <= REDUCE_BLOCK elements of the kernel's own type. */
typedef void (*comm_reduce_kernel)(uint32_t redop, void *to, const void *const *from, uint32_t n,
                                   uint64_t count);

typedef struct comm_kernel_set {
    const char *name;
    comm_reduce_kernel f32, bf16, f16, i32, i64;
    comm_code_set code;
} comm_kernel_set;

extern const comm_kernel_set comm_kernels_v2; /* x86-64-v2, or plain C on other processors */
extern const comm_kernel_set comm_kernels_v3; /* AVX2 and F16C                             */
extern const comm_kernel_set comm_kernels_v4; /* AVX-512                                   */

/* The widest set for this machine; of it, the kernel of a type, NULL for a type without reductions.
 * [any] */
const comm_kernel_set *comm_kernels_pick(void);
comm_reduce_kernel comm_reduce_pick(uint32_t dtype);

/* Whether this set is usable on this machine. For tests. [any] */
int comm_kernels_usable(const comm_kernel_set *set);

/* One reduction of any length into any number of destinations, each of which gets the result. The
 * arrays of addresses are advanced, so they cannot be used again. */
typedef struct comm_reduce_job {
    comm_reduce_kernel kernel;
    uint32_t redop, size; /* size: bytes of an element */
    uint32_t nto, nfrom;
    void **to;
    const void **from;
    uint64_t count; /* elements */
} comm_reduce_job;

void comm_reduce_run(const comm_reduce_job *j); /* [progress] */

#endif
