/* kern/impl.h: common header of the kernel sources. */
#ifndef CPU_IMPL_H
#define CPU_IMPL_H

#include "kern/simd/types.h"

#define CPU_KERNEL_PROTOTYPE(name) cpu_kernel KERNEL(name);
CPU_KERNELS(CPU_KERNEL_PROTOTYPE)
CPU_TILE_KERNELS(CPU_KERNEL_PROTOTYPE)
CPU_TILE_ONLY_KERNELS(CPU_KERNEL_PROTOTYPE)
cpu_scratch KERNEL(attention_scratch), KERNEL(attention_dx_scratch),
    KERNEL(attention_cached_scratch), KERNEL(product_scratch);

/* Call a kernel's body with the activation type as a compile-time constant. */
#define BY_TYPE(dt, call)                                                                          \
    do {                                                                                           \
        if ((dt) == WEFT_F32)                                                                      \
            call(WEFT_F32);                                                                        \
        else if ((dt) == WEFT_BF16)                                                                \
            call(WEFT_BF16);                                                                       \
        else                                                                                       \
            call(WEFT_F16);                                                                        \
    } while (0)

#endif
