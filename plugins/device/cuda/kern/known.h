/* kern/known.h: elementwise programs that jobs have all the time, as ew.c makes them ready;
 * known.cu has a kernel for each. Read by the C side, which knows them again, and by nvcc.
 *
 * Slots that the vectors among the inputs are read into; instructions; what the outputs are, of
 * which the last may be missing (a copy in 16 bits). A scalar is EW_SCALAR here, whatever its
 * number. */
#ifndef GPU_KNOWN_H
#define GPU_KNOWN_H

#include "job.h"
#include <weft/op.h>

#define EW_STEP(op, dst, a, b, c)                                                                  \
    {                                                                                              \
        WEFT_EW_##op, dst, a, b, c, 0                                                              \
    }
#define EW_JOINED(dst, a, b, c)                                                                    \
    {                                                                                              \
        EW_MULADD, dst, a, b, c, 0                                                                 \
    }
#define EW_NOT EW_NOWHERE /* no such operand */

/* A sum of two: residual branches and their gradients. */
#define KNOWN_ADD_IN                                                                               \
    {                                                                                              \
        0, 1                                                                                       \
    }
#define KNOWN_ADD_OUT                                                                              \
    {                                                                                              \
        EW_BEFORE                                                                                  \
    }
#define KNOWN_ADD_STEPS                                                                            \
    {                                                                                              \
        EW_STEP(ADD, EW_NOWHERE, 0, 1, EW_NOT)                                                     \
    }

/* Gradient, then parameter. */
#define KNOWN_SGD_IN                                                                               \
    {                                                                                              \
        0, EW_NOT, EW_NOT, 1, EW_NOT                                                               \
    }
#define KNOWN_SGD_OUT                                                                              \
    {                                                                                              \
        EW_BEFORE, EW_BEFORE                                                                       \
    }
#define KNOWN_SGD_STEPS                                                                            \
    {                                                                                              \
        EW_STEP(MUL, EW_NOWHERE, 0, EW_SCALAR, EW_NOT),                                            \
        {                                                                                          \
            EW_NMULADD, EW_NOWHERE, EW_BEFORE, EW_SCALAR, 1, 0                                     \
        }                                                                                          \
    }

/* Gradient, both moments, parameter: the moments' averages, the root of the second, the step. */
#define KNOWN_ADAM_IN                                                                              \
    {                                                                                              \
        0, EW_NOT, 1, 2, EW_NOT, EW_NOT, 3, EW_NOT                                                 \
    }
#define KNOWN_ADAM_OUT                                                                             \
    {                                                                                              \
        1, 0, EW_BEFORE, EW_BEFORE                                                                 \
    }
#define KNOWN_ADAM_MOMENTS                                                                         \
    EW_STEP(MUL, 0, 0, EW_SCALAR, EW_NOT), EW_STEP(SUB, EW_NOWHERE, EW_BEFORE, 1, EW_NOT),         \
        EW_JOINED(1, EW_BEFORE, EW_SCALAR, 1), EW_STEP(MUL, EW_NOWHERE, 0, EW_SCALAR, EW_NOT),     \
        EW_STEP(MUL, EW_NOWHERE, EW_BEFORE, 0, EW_NOT), EW_JOINED(0, 2, EW_SCALAR, EW_BEFORE),     \
        EW_STEP(SQRT, EW_NOWHERE, EW_BEFORE, EW_NOT, EW_NOT),                                      \
        EW_JOINED(2, EW_BEFORE, EW_SCALAR, EW_SCALAR)
#define KNOWN_ADAM_UPDATE                                                                          \
    EW_STEP(MUL, EW_NOWHERE, 1, EW_SCALAR, EW_NOT),                                                \
        EW_STEP(DIV, EW_NOWHERE, EW_BEFORE, 2, EW_NOT),                                            \
        EW_STEP(SUB, EW_NOWHERE, 3, EW_BEFORE, EW_NOT)
#define KNOWN_ADAM_STEPS                                                                           \
    {                                                                                              \
        KNOWN_ADAM_MOMENTS, KNOWN_ADAM_UPDATE                                                      \
    }

/* ... with weight decay beside the step. */
#define KNOWN_ADAMW_IN KNOWN_ADAM_IN
#define KNOWN_ADAMW_OUT KNOWN_ADAM_OUT
#define KNOWN_ADAMW_STEPS                                                                          \
    {                                                                                              \
        KNOWN_ADAM_MOMENTS, EW_STEP(MUL, 3, 3, EW_SCALAR, EW_NOT), KNOWN_ADAM_UPDATE               \
    }

#endif
