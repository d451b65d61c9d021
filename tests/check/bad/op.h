/* bad/op.h: what the op and the kernels of bad/op.c share. */
#ifndef BAD_OP_H
#define BAD_OP_H

#include <weft/device.h>

enum {
    GOOD,
    WRITES_PAST,
    FIXED_SIZE,
    WRONG_DOC,
    ANY_NUMBER,
    ANY_RANK,
    ANY_TYPE,
    NO_ATTRIBUTE,
    SILENT,
    WRONG_GRADIENT,
    WRITES_INPUT,
    UNWRITTEN,
    NO_GRADIENT,
    NEEDS_ALL,
    WRONG_PART,
    SILENT_SHARD,
    NO_SUCH_AXIS,
    NEGATIVE,
    QUADRATIC,
    OVERWRITES,
    IGNORES_FIRST,
    KEY_PREFIX,
    FLATTENS,
    OWN_SCALE
};

extern const weft_op mix, mix_dx;
extern const weft_kernel mix_cpu, mix_dx_cpu;

/* The attribute "s"; NULL: there is none. */
const weft_attr *mix_scale(const weft_attr *attrs, uint32_t nattr);

#endif
