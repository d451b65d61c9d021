/* plan/lower/repack.h: copies that make the parts of a tensor contiguous for a collective.
 *
 * A collective takes and returns the parts of the ranks one behind the other. Where it cuts or
 * joins the first axis of a tensor, its parts lie like that. For any other axis the parts are
 * interleaved, and a copy exchanges the two outer of three dimensions, by the device's op
 * "interchange":
 *
 *   pack     before a cut:  [before the axis, ranks, rest] -> [ranks, before, rest]
 *   unpack   after a join:  [ranks, before, rest] -> [before, ranks, rest]
 *
 * Each reads and writes the tensor once, and goes through one temporary of the size of the larger
 * side, for the time of the collective. An all-to-all from a split of tokens, the first axis, to
 * one of heads packs only; the one back unpacks only. */
#ifndef PLAN_LOWER_REPACK_H
#define PLAN_LOWER_REPACK_H

#include "graph/graph.h"

typedef struct plan_repack {
    bool packs, unpacks;
    uint32_t dtype;
    int64_t pack[3], unpack[3]; /* dimensions of what is read */
    uint64_t bytes;             /* of the temporary; 0: neither */
} plan_repack;

/* What the communication `n` needs, which has been placed. */
void plan_repack_find(const graph *g, const graph_node *n, plan_repack *out);

/* The call that reads dimensions `from`; sets its operands. */
weft_opspec plan_repack_spec(const plan_repack *r, const int64_t from[3], weft_operand io[2]);

#endif
