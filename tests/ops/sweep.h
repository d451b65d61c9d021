/* sweep.h: an op at many sizes in all its variants: fp32, bf16 and fp16, gradients in that or fp32,
 * accumulating or not, on each instruction set, with one thread and with two, twice for the same
 * bits. */
#ifndef OPS_SWEEP_H
#define OPS_SWEEP_H

#include "cases.h"

/* Each op of a NULL-ended list with each of the sizes. `grads`: the op has gradient outputs. */
void sweep(const char *const *isas, const char *const *ids, const struct sizes *n, size_t sizes,
           int grads);

/* Output 0 lies over input over-1, bf16, two threads. */
void sweep_in_place(const char *id, const struct sizes *n, int over);

#define SWEEP(isas, sizes, grads, ...)                                                             \
    sweep(isas, (const char *const[]){__VA_ARGS__, NULL}, sizes, sizeof(sizes) / sizeof *(sizes),  \
          grads)
#define CHECK_ALL(sizes, grads, ...) SWEEP(bench_isas(), sizes, grads, __VA_ARGS__)

#endif
