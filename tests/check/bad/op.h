/* bad/op.h: what the op and the kernels of bad/op.c share. */
#ifndef BAD_OP_H
#define BAD_OP_H

#include "faults.h"

#include <weft/device.h>

extern const weft_op mix, mix_dx;
extern const weft_kernel mix_cpu, mix_dx_cpu;

/* The attribute "s"; NULL: there is none. */
const weft_attr *mix_scale(const weft_attr *attrs, uint32_t nattr);

#endif
