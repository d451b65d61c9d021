/* run/state/residual.h: what compressed sums have kept, in checkpoints. */
#ifndef RUN_STATE_RESIDUAL_H
#define RUN_STATE_RESIDUAL_H

#include "ckpt/ckpt.h"
#include "run/exec/exec.h"

enum { KEPT_PIECES = 3 }; /* at most, of a rank */

/* What this rank has kept, as tensors of its own; none where nothing is. names: [KEPT_PIECES];
 * `copies` holds what the host cannot read in place. [setup] */
weft_status kept_collect(executor *e, ckpt_piece *out, uint32_t *n, char (*names)[64],
                         pool *copies);

/* Go on with what the same job had kept on the same ranks; another begins with nothing kept, or
 * does without, and rank 0 says so. [setup] */
weft_status kept_load(executor *e, const ckpt *c);

/* Whether a checkpoint's tensor is one of these, of whatever job. [any] */
bool kept_named(const char *name);

#endif
