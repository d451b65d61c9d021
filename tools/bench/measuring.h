/* bench/measuring.h: what the commands share that measure with ranks of their own: bench comm
 * and tune comm. */
#ifndef BENCH_MEASURING_H
#define BENCH_MEASURING_H

#include "comm/comm.h"
#include "config/config.h"

#define MEASURING_KINDS 8 /* collectives that measure.h has */
#define MEASURING_TYPES "fp32|bf16|fp16|int32|int64"

/* "all_reduce, broadcast" under `key`, as kinds. */
weft_status bench_measure_kinds(const config *c, const char *key, uint32_t kind[MEASURING_KINDS],
                                uint32_t *n);
uint32_t bench_measure_type(const char *name); /* one of MEASURING_TYPES, as WEFT_F32 ... */

/* Memory that peers can map; the process keeps it. */
weft_status bench_measure_arena(uint64_t bytes, comm_arena *out);

/* Report the error, unless the launcher does, leave the job, and destroy the world; success on this
 * rank is no success if another rank failed. Returns the exit status. */
int bench_measure_leave(job *j, comm_world *w, weft_status st);

#endif
