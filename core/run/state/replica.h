/* run/state/replica.h: checkpoints of ranks that train apart.
 *
 * Where a strategy never sums gradients over a mesh axis, its coordinates have parameters and
 * states of their own. Each of these replicas is saved: replica 0 under the tensor's name, as if
 * there were no other, so that whatever reads a checkpoint finds a model; replica N under
 * "replica.N.NAME". A job with as many replicas goes on exactly. In another one those that are
 * missing begin as replica 0, those that are too many are left out, and the log says so. */
#ifndef RUN_STATE_REPLICA_H
#define RUN_STATE_REPLICA_H

#include "ckpt/ckpt.h"
#include "run/exec/exec.h"

#define REPLICA_NAME (2 * WEFT_MAX_NAME + 24)

/* The name under which replica `number` of a piece is saved: the piece's own, or `name`. [any] */
const char *replica_name(const piece *p, uint32_t number, char name[REPLICA_NAME]);

/* Of the name of a saved tensor, the name that it has as replica 0: a part of `name`. [any] */
const char *replica_of(const char *name);

/* Rank 0: a warning where a checkpoint has more replicas than the job, or fewer. [setup] */
void replicas_tell(const executor *e, const ckpt *c);

#endif
