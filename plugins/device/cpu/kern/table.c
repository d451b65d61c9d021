/* kern/table.c: the kernel table of the set CPU_SET, with the kernels of CPU_SUFFIX. */
#include "impl.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ENTRY(name) .name = KERNEL(name),

const struct cpu_kernels CPU_JOIN(cpu_kernels, CPU_SET) = {
    .isa = TEXT(CPU_SET),
    .lanes = VL,
    .attention_scratch = KERNEL(attention_scratch),
    .attention_dx_scratch = KERNEL(attention_dx_scratch),
    .attention_cached_scratch = KERNEL(attention_cached_scratch),
    CPU_KERNELS(ENTRY)};
