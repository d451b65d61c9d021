/* comm/kernels/code.h: gradient compression kernels: elements to codes and back (schedule/form.h).
 * The kernels are one set with those of reduce.h: ranks decode the same bytes to the same values on
 * any CPU. */
#ifndef COMM_KERNELS_CODE_H
#define COMM_KERNELS_CODE_H

#include "schedule/form.h"

/* Each works on one block, n <= SCHED_CODE_BLOCK; `form` is SCHED_TO_FP16, ... */
typedef struct comm_code_set {
    /* to[] = from[], elements of `dtype`, and the other way round */
    void (*widen)(uint32_t dtype, float *to, const void *from, uint64_t n);
    void (*narrow)(uint32_t dtype, void *to, const float *from, uint64_t n);
    /* encodes x, which becomes the decoded code; residual may be NULL */
    void (*encode)(uint32_t form, void *code, float *x, float *residual, uint64_t n);
    void (*decode)(uint32_t form, float *x, const void *code, uint64_t n);
    void (*add)(uint32_t form, float *x, const void *code, uint64_t n); /* x += the code */
    void (*add_residual)(float *x, const float *residual, float times,
                         uint64_t n); /* x += times * residual */
} comm_code_set;

/* Runs a step of a compressed sum (schedule/program.h), its places resolved. The residual is scaled
 * by `times`. [progress] */
void comm_code_run(const comm_code_set *set, const sched_request *r, const sched_step *s,
                   void *const *to, const void *const *from, float times);

#endif
