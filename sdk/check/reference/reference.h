/* check/reference/reference.h: every op in naive loops in double precision: what devices, rules,
 * gradients and splits of graphs are judged by. No code is shared with a device. An op is computed
 * from its shapes alone, so that it may be a rank's part of one. */
#ifndef CHECK_REFERENCE_REFERENCE_H
#define CHECK_REFERENCE_REFERENCE_H

#include "check/reference/call.h"

/* Put into c->y what the op gives for c->x (added to what y holds, if the call accumulates); where
 * the gate of a program is 0, y stays. False: check_reference_knows(). */
bool check_reference(const check_call *c);

/* Is this an op that is known here, or elementwise? */
bool check_reference_knows(const check_call *c);

/* The WEFT_EW_ of an elementwise op; 0: it is none. */
uint32_t check_reference_ew(const check_call *c);

/* What an elementwise op gives. `ew`: a WEFT_EW_ other than WEFT_EW_CONST. Numbers that the op does
 * not read are 0. What is computed from a NaN is a NaN. */
double check_elementwise(uint32_t ew, double a, double b, double c);

/* The registers after the program of a call for element i; returns the largest magnitude of a
 * step. */
double check_reference_steps(const check_call *c, int64_t i, double *registers);

/* What a cast makes of a number: 16-bit types round, whole numbers saturate. check_reference()
 * rounds no float to the type of the output, that of a cast neither. */
double check_reference_cast(uint32_t dtype, double v);

#endif
