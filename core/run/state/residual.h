/* run/state/residual.h: error-feedback residuals in checkpoints.
 *
 * With [comm] compress a gradient sum is encoded in fewer bits. The residual, the difference
 * between value and code, is added to the next sum (error feedback). */
#ifndef RUN_STATE_RESIDUAL_H
#define RUN_STATE_RESIDUAL_H

#include "run/save/pieces.h"

enum { RUN_RESIDUAL_PIECES = 3 }; /* tensors of one rank, at most */

/* Write the residuals of this rank to out [RUN_RESIDUAL_PIECES] as tensors and return how many
 * there are, 0 if it has none. `names` owns their names. [setup] */
uint32_t run_residual_collect(run_executor *e, run_save_piece *out, pool *names);

/* Load the residuals if the checkpoint was saved with the same layout. In another layout they start
 * at zero; rank 0 logs that. [setup] */
weft_status run_residual_load(run_executor *e, const ckpt *c);

/* Whether this is the name of a residual tensor, of any layout. [any] */
bool run_residual_is_name(const char *name);

#endif
