/* comm/kernels/reduce_v2.c: the kernels of reduce.h and code.h at the baseline instruction set of
 * the build. */
#define WIDE
#define SET comm_kernels_v2
#define SET_NAME "x86-64-v2"
#include "comm/kernels/code_kernel.h"
