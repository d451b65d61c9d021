/* run/exec/peak.h: measures the peak rate of the device, the divisor of MFU. */
#ifndef RUN_EXEC_PEAK_H
#define RUN_EXEC_PEAK_H

#include "run/exec/executor.h"

/* Floating-point operations per second that a device of this job reaches on a matrix product in the
 * job's compute type while all ranks are busy: the mean over the ranks. Uses the arena and leaves
 * it zeroed, so call it before weights are loaded. [setup] [collective] */
weft_status run_measure_peak(run_executor *e, double *flops);

#endif
