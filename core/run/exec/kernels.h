/* run/exec/kernels.h: the kernels of a plan: those of the device, and those of plugins. */
#ifndef RUN_EXEC_KERNELS_H
#define RUN_EXEC_KERNELS_H

#include "run/exec/executor.h"

/* Prepare every kernel of the plan. [setup] */
weft_status run_kernels_prepare(run_executor *e);

/* Run the segment that the entry `x` calls, with the bases of that call. [compute] */
weft_status run_kernels_call(run_executor *e, const plan_entry *x);

/* Release what was prepared, also after a failure of run_kernels_prepare(). [setup] */
void run_kernels_release(run_executor *e);

#endif
