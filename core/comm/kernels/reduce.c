/* comm/kernels/reduce.c: selects the kernels for this machine and processes long arrays block by
 * block.
 *
 * A block of the result stays in the L1 cache while it is copied to the further destinations, so
 * writing the result into the memory of several ranks costs only their stores. */
#include "comm/kernels/reduce.h"

#include <string.h>

#if defined(__x86_64__)
int comm_kernels_usable(const comm_kernel_set *set)
{
    if (set == &comm_kernels_v3) /* every CPU with AVX2 has F16C, which clang cannot test for */
        return __builtin_cpu_supports("avx2");
    if (set == &comm_kernels_v4)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return 1;
}

const comm_kernel_set *comm_kernels_pick(void)
{
    return comm_kernels_usable(&comm_kernels_v4)   ? &comm_kernels_v4
           : comm_kernels_usable(&comm_kernels_v3) ? &comm_kernels_v3
                                                   : &comm_kernels_v2;
}
#else
int comm_kernels_usable(const comm_kernel_set *set)
{
    return set == &comm_kernels_v2;
}

const comm_kernel_set *comm_kernels_pick(void)
{
    return &comm_kernels_v2;
}
#endif

comm_reduce_kernel comm_reduce_pick(uint32_t dtype)
{
    const comm_kernel_set *set = comm_kernels_pick();
    switch (dtype) {
    case WEFT_F32: return set->f32;
    case WEFT_BF16: return set->bf16;
    case WEFT_F16: return set->f16;
    case WEFT_I32: return set->i32;
    case WEFT_I64: return set->i64;
    default: return NULL;
    }
}

void comm_reduce_run(const comm_reduce_job *j)
{
    for (uint64_t at = 0; at < j->count; at += REDUCE_BLOCK) {
        uint64_t n = j->count - at < REDUCE_BLOCK ? j->count - at : REDUCE_BLOCK;
        uint64_t bytes = n * j->size;
        j->kernel(j->redop, j->to[0], j->from, j->nfrom, n);
        for (uint32_t k = 1; k < j->nto; k++)
            memcpy(j->to[k], j->to[0], bytes);
        for (uint32_t k = 0; k < j->nto; k++)
            j->to[k] = (char *)j->to[k] + bytes;
        for (uint32_t k = 0; k < j->nfrom; k++)
            j->from[k] = (const char *)j->from[k] + bytes;
    }
}
