/* comm/reduce_v2.c: the reduction kernels at the level that everything is built for. */
#define WIDE
#define SET reduce_v2
#define SET_NAME "x86-64-v2"
#include "comm/reduce_kernel.h"
