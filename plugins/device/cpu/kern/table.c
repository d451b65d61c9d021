/* kern/table.c: the kernel table of one instruction set. */
#include "impl.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define ENTRY(name) .name = KERNEL(name),

const struct cpu_kernels KERNEL(kernels) = {
    .isa = TEXT(CPU_SUFFIX),
    .lanes = VL,
    .attention_scratch = KERNEL(attention_scratch),
    .attention_dx_scratch = KERNEL(attention_dx_scratch),
    .attention_cached_scratch = KERNEL(attention_cached_scratch),
    CPU_KERNELS(ENTRY)};
