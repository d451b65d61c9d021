/* plan/edits/edits.h: the edits of strategies and placements, as data.
 *
 * Plugins emit edits into tables (weft/strategy.h). Edits that change the graph are applied at
 * once; the others are stored here, and later passes read them. Each plan has one edit_state. */
#ifndef PLAN_EDITS_EDITS_H
#define PLAN_EDITS_EDITS_H

#include "plan/layout/layout.h"
#include "plan/plan.h"

typedef struct sync_edit {
    const char *glob, *owner;
    uint32_t mesh_axis, when; /* or FIRST_GROUP + the group */
    uint64_t bucket_bytes;
    bool overrides; /* from a placement: overrides what a strategy set for the axis */
} sync_edit;

typedef struct store_edit {
    const char *glob, *owner;
    uint32_t what, mesh_axis, ahead;
} store_edit;

typedef struct update_edit {
    const char *glob, *owner;
    uint64_t from;
    uint32_t every;
    bool mean;
} update_edit;

typedef struct list_edit {
    const char *name;
    uint32_t every, n;
    node *nodes;
} list_edit;

typedef struct edit_state {
    graph *g;
    const spec *s;
    pool *pool;
    const char *owner; /* plugin that is emitting */
    uint32_t phase;
    uint64_t micro_batches;
    VEC(sync_edit) syncs;
    VEC(store_edit) stores;
    VEC(update_edit) updates;
    VEC(list_edit) lists;
    bool placing;       /* the placement is emitting */
    uint32_t edits;     /* edits that the plugin has emitted in this call */
    weft_status failed; /* first failure of an edit in this call, and its reason */
    const char *why;
    group_list groups;
    struct stage_map stages;
    char *changes;
} edit_state;

/* Call edit() of all strategies for a phase (WEFT_PHASE_...), in WEFT_PHASE_SYNC also that of the
 * placement. Returns the first failure of an edit. */
weft_status plan_edits_run(edit_state *e, uint32_t phase);

void plan_edits_free(edit_state *e);

/* Record, for the user, that results depend on the layout; duplicate lines are dropped. */
void plan_edits_note_change(edit_state *e, const char *line);

/* Has the plugin recorded a line by plan_edits_note_change()? */
bool plan_edits_has_noted(const edit_state *e, const char *owner);

/* Check gradients that a strategy leaves unsummed over a mesh axis (WEFT_SYNC_NEVER). WEFT_USAGE
 * unless a periodic list synchronizes the parameters or the strategy states the effect. Tells the
 * user. */
weft_status plan_edits_check_unsummed(const flat *f, edit_state *e);

#endif
