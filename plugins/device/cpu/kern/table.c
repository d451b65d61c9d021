/* kern/table.c: the kernel table of the set CPU_SET, with the kernels of CPU_SUFFIX, and where
 * tiles are used of CPU_TILE_SUFFIX. CPU_TILE_ONLY: that set has kernels which no other has. */
#include "impl.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ENTRY(name) .name = KERNEL(name),
#define TILE_KERNEL(name) CPU_JOIN(cpu_##name, CPU_TILE_SUFFIX)
#define TILE_ENTRY(name) .name = TILE_KERNEL(name),
#define TILE_PROTOTYPE(name) extern cpu_kernel TILE_KERNEL(name);
CPU_TILE_KERNELS(TILE_PROTOTYPE)
CPU_TILE_ONLY_KERNELS(TILE_PROTOTYPE)
extern cpu_scratch TILE_KERNEL(attention_scratch), TILE_KERNEL(attention_dx_scratch);
extern cpu_scratch TILE_KERNEL(product_scratch);

const struct cpu_kernels CPU_JOIN(cpu_kernels, CPU_SET) = {
    .isa = TEXT(CPU_SET),
    .lanes = VL,
    .attention_scratch = TILE_KERNEL(attention_scratch),
    .attention_dx_scratch = TILE_KERNEL(attention_dx_scratch),
    .attention_cached_scratch = KERNEL(attention_cached_scratch),
    CPU_KERNELS(ENTRY) CPU_TILE_KERNELS(TILE_ENTRY)
#ifdef CPU_TILE_ONLY
        CPU_TILE_ONLY_KERNELS(TILE_ENTRY)
            .product_scratch = TILE_KERNEL(product_scratch),
#endif
};
