/* tests/schedule/coded.h: codes and compressed sums by plain loops over doubles, from what
 * core/schedule/form.h and alg/compress.c say; nothing here shares code with them. */
#ifndef TESTS_SCHEDULE_CODED_H
#define TESTS_SCHEDULE_CODED_H

#include "schedule/schedule.h"

/* One block: said[i] is what the code of x[i] decodes to, lost[i] what is to be kept. */
void coded_block(uint32_t form, const float *x, uint64_t n, float *said, float *lost);

/* Elements of any type as fp32, and rounded back. */
float coded_value(uint32_t dtype, const void *at, uint64_t i);
void coded_put(uint32_t dtype, void *at, uint64_t i, float value);

/* What all ranks together get by a compressed sum of in[rank][count]: out[count], of which rank i
 * of a reduce-scatter has part i. kept[rank] is read and written as the ranks do; NULL: no
 * feedback. */
void coded_sum(const sched_request *r, void *const *in, void *out, float *const *kept, float times);

#endif
