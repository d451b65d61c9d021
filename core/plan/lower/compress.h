/* plan/lower/compress.h: gradient compression: which sums are compressed. */
#ifndef PLAN_LOWER_COMPRESS_H
#define PLAN_LOWER_COMPRESS_H

#include "plan/builder.h"
#include "plan/edits/edits.h"

/* Report an error for compression that cannot be applied, and tell the user what is rounded; after
 * plan_sync_prepare(). */
weft_status plan_compress_prepare(plan_builder *b);

/* Mark a sum over `axis` as compressed if the job asks for it. `residual_used`: the
 * same residual was already used in this step. */
void plan_compress_sum(plan_builder *b, plan_collective *c, uint32_t axis, bool residual_used);

/* Place the residuals after all other memory. */
void plan_compress_finish(plan_builder *b);

#endif
