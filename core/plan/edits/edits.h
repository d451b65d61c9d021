/* plan/edits/edits.h: the edits of strategies and placements, as data.
 *
 * Plugins emit edits into tables (weft/strategy.h). Edits that change the graph are applied at
 * once; the others are stored here, and later passes read them. Each plan has one plan_edit_state.
 */
#ifndef PLAN_EDITS_EDITS_H
#define PLAN_EDITS_EDITS_H

#include "plan/layout/layout.h"
#include "plan/plan.h"

typedef struct plan_sync_edit {
    const char *glob, *owner;
    uint32_t mesh_axis, when; /* or FIRST_GROUP + the group */
    uint64_t bucket_bytes;
    bool overrides; /* from a placement: overrides what a strategy set for the axis */
} plan_sync_edit;

typedef struct plan_store_edit {
    const char *glob, *owner;
    uint32_t what, mesh_axis, ahead;
} plan_store_edit;

typedef struct plan_update_edit {
    const char *glob, *owner;
    uint64_t from;
    uint32_t every;
    bool mean;
} plan_update_edit;

typedef struct plan_list_edit {
    const char *name;
    uint32_t every, n;
    graph_node *nodes;
} plan_list_edit;

typedef struct plan_edit_state {
    graph *g;
    const spec *s;
    pool *pool;
    const char *owner; /* plugin that is emitting */
    uint32_t phase;
    uint64_t micro_batches;
    VEC(plan_sync_edit) syncs;
    VEC(plan_store_edit) stores;
    VEC(plan_update_edit) updates;
    VEC(plan_list_edit) lists;
    bool placing;       /* the placement is emitting */
    uint32_t edits;     /* edits that the plugin has emitted in this call */
    weft_status failed; /* first failure of an edit in this call, and its reason */
    const char *why;
    plan_group_list groups;
    struct plan_stage_map stages;
    char *changes;
} plan_edit_state;

/* Call edit() of all strategies for a phase (WEFT_PHASE_...), in WEFT_PHASE_SYNC also that of the
 * placement. Returns the first failure of an edit. */
weft_status plan_edits_run(plan_edit_state *e, uint32_t phase);

void plan_edits_free(plan_edit_state *e);

/* Record, for the user, that results depend on the layout; duplicate lines are dropped. */
void plan_edits_note_change(plan_edit_state *e, const char *line);

/* Has the plugin recorded a line by plan_edits_note_change()? */
bool plan_edits_has_noted(const plan_edit_state *e, const char *owner);

#endif
