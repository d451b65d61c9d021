/* run/state/verify.h: comparing what ranks hold copies of.
 *
 * Ranks that differ only on mesh axes that do not divide a tensor hold the same bits of it: sums
 * have a fixed order, and what one rank updates the others receive. A difference is a fault of a
 * machine, or of processors that round differently. Compared are parameters, their compute copies
 * and the states of the update rule, where two ranks of a stage or more hold the same elements;
 * replicas that are trained separately and slices that one rank alone has are not. */
#ifndef RUN_STATE_VERIFY_H
#define RUN_STATE_VERIFY_H

#include "run/exec/executor.h"

/* Of one comparison, on this rank. */
typedef struct run_verified {
    uint64_t bytes; /* hashed */
    double ms;
} run_verified;

/* The share of the bytes of parameters, compute copies and states of `rank` that another rank holds
 * as well, and that are therefore compared; 0 to 1. [any] */
double run_verify_share(const plan_set *plans, uint32_t rank);

/* Hashes this rank's copies after `step` and compares the hashes of all ranks. WEFT_IO on all of
 * them where bits differ: the sentence names the first tensor and the rank that is alone with its
 * bits, or all that hold it where no majority agrees. [compute] [collective] */
weft_status run_verify(run_executor *e, const plan_set *plans, uint64_t step, run_verified *out);

#endif
