/* kern/simd/rowsum.h: sums over a row. */
#ifndef CPU_ROWSUM_H
#define CPU_ROWSUM_H

#include "kern/simd/types.h"

/* Sum of term(i, n) over a row: i is the first element, n the number of elements left. Two partial
 * sums hide the latency of the addition. */
#define ROW_SUM(total, cols, term)                                                                 \
    do {                                                                                           \
        vf sum0_ = v_set1(0), sum1_ = v_set1(0);                                                   \
        int64_t i = 0;                                                                             \
        for (; i + 2 * VL <= (cols); i += 2 * VL) {                                                \
            sum0_ += term(i, VL);                                                                  \
            sum1_ += term(i + VL, VL);                                                             \
        }                                                                                          \
        for (; i < (cols); i += VL)                                                                \
            sum0_ += term(i, (cols)-i);                                                            \
        (total) = v_sum(sum0_ + sum1_);                                                            \
    } while (0)

#endif
