/* check/op/kernels.h: checks of kernels (weft.kernel/1) of the file. A kernel is run on the device
 * that it names, which is a component of the file or installed, with examples from the doc of its
 * op, which is an op of the file or of the core. */
#ifndef CHECK_OP_KERNELS_H
#define CHECK_OP_KERNELS_H

#include "check/check.h"

void check_op_kernels(check_run *r);        /* 179: the rules of kernels of devices */
void check_op_kernels_differ(check_run *r); /* 180: against the device's own kernel */

#endif
