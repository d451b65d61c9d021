/* check/op/value.h: numbers that go through the ops of a file; private to this folder.
 *
 * Values are fp32, as kernels have them, in memory of the caller. What checks compare is one
 * computation with another of the same kernel, so that no check needs to know what an op means. */
#ifndef CHECK_OP_VALUE_H
#define CHECK_OP_VALUE_H

#include "check/op/op.h"

#include <weft/device.h>

/* A call in a step, in which a plugin may do less: harness.h. */
#define CHECK_OP_STEP(call)                                                                        \
    ({                                                                                             \
        atomic_store(&check_step, "run");                                                          \
        const weft_status step_ = (call);                                                          \
        atomic_store(&check_step, NULL);                                                           \
        step_;                                                                                     \
    })

/* One op with everything known. */
typedef struct check_op_task {
    const char *id;
    const weft_op *op;
    const weft_attr *attrs;
    uint32_t nattr, nin, nout;
    uint32_t in_place; /* k > 0: output 0 is the memory of input k - 1; 0: not so */
    const weft_shape *in, *out;
    const void *const *from;
    void *const *to;
} check_op_task;

/* Compute it. False, with the reason in `why`: nothing on this machine computes this op; a kernel
 * that refuses has said so. A kernel that fails after it has accepted fails the check. kernel.c */
bool check_op_compute(const check_op *of, const check_op_task *t, char why[1024]);

/* --- values.c --- */

/* Memory for a tensor: numbers between 1/4 and 5/4, times `scale`, with both signs if `mixed`; ids
 * are 0 and 1. */
void *check_op_numbers(const weft_shape *s, uint64_t *random, bool mixed, double scale);

/* The attributes of a call with what kernels get besides (weft/op.h): "first", and for
 * WEFT_OP_NUMBERED "seed" and "whole.K". `part` of two parts, `in` the shapes of the whole job. */
#define CHECK_OP_ATTRS (GRAPH_DOC_ATTRS + WEFT_MAX_AXES + 3)
uint32_t check_op_position(const weft_op *op, const weft_attr *attrs, uint32_t nattr,
                           const weft_shape *in, uint32_t nin, const weft_place *places,
                           uint32_t part, weft_attr out[CHECK_OP_ATTRS]);

/* The values of the example's results from those of its inputs, with memory of its own in to[].
 * False: see check_op_compute(). */
bool check_op_forward(const check_op_example *e, const void *const *from, uint32_t in_place,
                      void **to, char why[1024]);
void check_op_free(void **values, uint32_t n);

/* The example with inputs in memory of its own, and its results; false: not computed. */
bool check_op_random(const check_op_example *e, uint64_t *random, bool mixed, void **from,
                     void **to, char why[1024]);

/* Whether a tensor has real numbers; all are finite; the largest magnitude. */
static inline bool check_op_real(const weft_shape *s)
{
    return s->dtype == WEFT_F32;
}

bool check_op_finite(const weft_shape *s, const void *x);
double check_op_largest(const weft_shape *s, const void *x);

/* The first element that differs by more than sums in another order do, the number of elements
 * where none does. Tensors of other types than fp32 are not compared. */
uint64_t check_op_unlike(const weft_shape *s, const void *a, const void *b);

#endif
