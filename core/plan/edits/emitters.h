/* plan/edits/emitters.h: the functions behind the tables of weft/strategy.h; private to edits/.
 *
 * A call from a plugin goes through arguments.c, which checks the arguments, to the edit itself
 * (apply.c, stages.c, lists.c). The helpers are in edit.c. */
#ifndef PLAN_EDITS_EMITTERS_H
#define PLAN_EDITS_EMITTERS_H

#include "plan/edits/edits.h"

#define EDITS_MAX 16384u      /* edits of one call of edit() */
#define EDITS_MAX_GLOB 4096u  /* bytes of a name with wildcards */
#define EDITS_MAX_LINE 1024u  /* bytes of a line for the user ... */
#define EDITS_MAX_TEXT 16384u /* ... and of all lines */

/* --- the tables --- */

weft_edits plan_edits_table(plan_edit_state *e); /* arguments.c */
weft_view plan_edits_view(plan_edit_state *e);   /* view.c */

/* --- edit.c: around every edit --- */

void plan_edits_begin(plan_edit_state *e); /* before a plugin's edit() ... */

/* ... and after it, with what it returned. If an edit failed, the call fails, whatever the plugin
 * returns. */
weft_status plan_edits_answer(plan_edit_state *e, weft_status st);

/* The error for a `what`, or an `e`, that is NULL. */
weft_status plan_edits_null(const plan_edit_state *e, const char *call, const char *what);

/* WEFT_USAGE unless `phase` is the current one. */
weft_status plan_edits_in_phase(const plan_edit_state *e, uint32_t phase);

/* Let the graph's comm() find the groups that there are. */
void plan_edits_show_groups(plan_edit_state *e);

/* The mesh axis of this name, or FIRST_GROUP + the group. */
weft_status plan_edits_axis(const plan_edit_state *e, const char *name, uint32_t *out);

/* --- apply.c, stages.c, lists.c: the edits, called with checked arguments --- */

weft_status plan_edit_split(void *ctx, const char *tensors, const char *axis,
                            const char *mesh_name);
weft_status plan_edit_replace(void *ctx, uint32_t op, weft_emit emit, void *user);
weft_status plan_edit_sync(void *ctx, const char *params, const char *mesh_name, uint32_t when,
                           uint64_t bucket_bytes);
weft_status plan_edit_update_every(void *ctx, const char *params, uint32_t every, uint64_t from,
                                   bool mean);
weft_status plan_edit_shard(void *ctx, uint32_t what, const char *params, const char *axis,
                            uint32_t ahead);
weft_status plan_edit_activations(void *ctx, const char *tensors, uint32_t how, const char *axis);
weft_status plan_edit_weight_versions(void *ctx, const char *params, uint32_t versions);
weft_status plan_edit_changes_results(void *ctx, const char *text);
weft_status plan_edit_stage(void *ctx, const char *blocks, const char *axis, uint32_t stage,
                            uint32_t chunk);
weft_status plan_edit_order(void *ctx, const char *axis, uint32_t stage, const weft_work *work,
                            uint32_t n);
weft_status plan_edit_group(void *ctx, const char *name, const char *axis, const uint32_t *coords,
                            uint32_t n);
weft_status plan_edit_periodic_list(void *ctx, const char *name, uint32_t every, weft_emit emit,
                                    void *user);

/* WEFT_USAGE unless every block has a stage and every order has each cell exactly once. */
weft_status plan_stages_finish(plan_edit_state *e);

#endif
