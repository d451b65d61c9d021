/* plan/builder.h: the state that the passes share while one plan is built.
 *
 * plan_build() makes one builder per plan and frees it. Each member belongs to one topic, whose
 * header documents it and whose file fills and frees it. Only files of plan/ include this
 * header. */
#ifndef PLAN_BUILDER_H
#define PLAN_BUILDER_H

#include "plan/edits/edits.h"
#include "plan/layout/layout.h"
#include "plan/layout/regions.h"
#include "plan/layout/space.h"
#include "plan/layout/stage_map.h"
#include "plan/lower/liveness.h"
#include "plan/plan.h"

typedef struct plan_builder {
    plan *p;
    graph *g; /* of the lists that are being built */
    plan_flat *f;
    plan_edit_state *edits;
    const struct plan_stage_map *stages; /* of the edits */
    const plan_group_list *groups;       /* of the edits */
    plan_block_bases bases;
    plan_zones zones;
    plan_liveness live;
    struct plan_sync_state *sync; /* gradient buckets: lower/sync.h; NULL in a forward-only plan */
    struct gather_queue *queue;   /* lower/zero_schedule.c; NULL until a gather starts */
    struct plan_rule *rule;       /* optim/rule.h; NULL until plan_update_prepare() */
    uint64_t loss_axes;           /* mesh axes over which the loss is partial */
    weft_tensor result;           /* the loss of a micro-batch, or the logits */
    uint64_t built;               /* what the family has built: plan/model.h */
} plan_builder;

#endif
