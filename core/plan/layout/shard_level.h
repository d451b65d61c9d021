/* plan/layout/shard_level.h: how far each block is sharded (ZeRO levels), from the edits. */
#ifndef PLAN_LAYOUT_SHARD_LEVEL_H
#define PLAN_LAYOUT_SHARD_LEVEL_H

#include "plan/edits/edits.h"

/* Set level, axis, parts and ahead of each flat block, after the axes of the sums are known. Edits
 * that contradict each other are WEFT_USAGE; what this version cannot do is WEFT_UNSUPPORTED. */
weft_status plan_shard_levels(plan_flat *f, const plan_edit_state *e);

#endif
