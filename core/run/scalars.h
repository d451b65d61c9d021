/* run/scalars.h: the plan's scalars after a step, read by one copy and one wait. */
#ifndef RUN_SCALARS_H
#define RUN_SCALARS_H

#include "run/exec/executor.h"
#include "run/view/metrics.h"

typedef struct run_scalars {
    run_executor *exec;
    char *copy;           /* of their slots in the arena */
    run_metric *reported; /* those of plugins that metrics have */
    uint32_t nscalars;
} run_scalars;

/* Finds the scalars that are read, and allocates; free it also after a failure. Of those that rules
 * and lists assign, metrics have the ones whose names have a dot. [setup] */
void run_scalars_begin(run_scalars *s, run_executor *e);
void run_scalars_free(run_scalars *s);

/* Reads all scalars. Call it between lists. */
weft_status run_scalars_read(run_scalars *s);

/* What a scalar was when it was read. WEFT_INTERNAL where the plan has no such scalar. */
weft_status run_scalars_value(const run_scalars *s, const char *name, double *out);

#endif
