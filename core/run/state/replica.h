/* run/state/replica.h: checkpoints of replicas that are never synchronized.
 *
 * Where a strategy never sums gradients over a mesh axis, each coordinate has its own parameters
 * and states, a replica. Replica 0 is saved under the tensor's name, so that a checkpoint is a
 * complete model for every reader; replica N is saved as "replica.N.NAME". A job with the same
 * number of replicas resumes exactly. In another job missing replicas start as copies of replica 0,
 * surplus ones are ignored, and this is logged. */
#ifndef RUN_STATE_REPLICA_H
#define RUN_STATE_REPLICA_H

#include "ckpt/ckpt.h"
#include "run/exec/executor.h"

#define REPLICA_NAME (2 * WEFT_MAX_NAME + 24)

/* The name under which replica `number` of a piece is saved: the piece's own, or `name`. [any] */
const char *run_replica_name(const plan_piece *p, uint32_t number, char name[REPLICA_NAME]);

/* The name of the tensor without the prefix of its replica; a part of `name`. [any] */
const char *run_replica_base_name(const char *name);

/* Rank 0: warn where a checkpoint has more or fewer replicas than the job. [setup] */
void run_replica_warn(const run_executor *e, const ckpt *c);

#endif
