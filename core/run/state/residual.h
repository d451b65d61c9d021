/* run/state/residual.h: error-feedback residuals in checkpoints.
 *
 * With [comm] compress a gradient sum is encoded in fewer bits. The residual, the difference
 * between value and code, is added to the next sum (error feedback). */
#ifndef RUN_STATE_RESIDUAL_H
#define RUN_STATE_RESIDUAL_H

#include "ckpt/ckpt.h"
#include "run/exec/executor.h"

enum { RUN_RESIDUAL_PIECES = 3 }; /* tensors of one rank, at most */

/* Append the residuals of this rank to `out` as tensors; none if it has none. names:
 * [RUN_RESIDUAL_PIECES]; `copies` owns copies of what the host cannot read in place. [setup] */
weft_status run_residual_collect(executor *e, ckpt_piece *out, uint32_t *n, char (*names)[64],
                                 pool *copies);

/* Load the residuals if the checkpoint was saved with the same layout. In another layout they start
 * at zero; rank 0 logs that. [setup] */
weft_status run_residual_load(executor *e, const ckpt *c);

/* Whether this is the name of a residual tensor, of any layout. [any] */
bool run_residual_is_name(const char *name);

#endif
