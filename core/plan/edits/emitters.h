/* plan/edits/emitters.h: the functions behind the tables of weft/strategy.h; private to edits/.
 *
 * An edit begins with plan_edit_begin(), checks its arguments and ends with plan_edit_end(). */
#ifndef PLAN_EDITS_EMITTERS_H
#define PLAN_EDITS_EMITTERS_H

#include "plan/edits/edits.h"

#define EDITS_MAX 16384u      /* edits of one call of edit() */
#define EDITS_MAX_GLOB 4096u  /* bytes of a name with wildcards */
#define EDITS_MAX_LINE 1024u  /* bytes of a line for the user ... */
#define EDITS_MAX_TEXT 16384u /* ... and of all lines */

/* --- the tables --- */

weft_edits plan_edits_table(plan_edit_state *e); /* apply.c */
weft_view plan_edits_view(plan_edit_state *e);   /* view.c */

/* --- edit.c: around every edit --- */

void plan_edits_begin(plan_edit_state *e); /* before a plugin's edit() ... */

/* ... and after it, with what it returned. If an edit failed, the call fails, whatever the plugin
 * returns. */
weft_status plan_edits_answer(plan_edit_state *e, weft_status st);

/* The error for a `what`, or an `e`, that is NULL. */
weft_status plan_edits_null(const plan_edit_state *e, const char *call, const char *what);

/* Count one more edit and check where it is called: in `phase` (0: in any), and not while an emit()
 * writes graph. No edit knows one of `flags`. */
weft_status plan_edit_begin(plan_edit_state *e, const char *call, uint32_t flags, uint32_t phase);

/* The result of an edit. The first failure within a call of edit() is stored, with the name of the
 * edit and the plugin: the call fails even if the plugin ignores the failure and continues. */
weft_status plan_edit_end(plan_edit_state *e, const char *call, weft_status st);

/* Checks of one argument; a failure `st` before it is the result. */
weft_status plan_edit_glob(weft_status st, const char *call, const char *what, const char *text);

/* The same, of the name of a mesh axis; *out is its number, or FIRST_GROUP + that of a group. */
weft_status plan_edit_axis(weft_status st, const plan_edit_state *e, const char *call,
                           const char *name, uint32_t *out);

/* Let the graph's comm() find the groups that there are. */
void plan_edits_show_groups(plan_edit_state *e);

/* --- the edits that are not in apply.c: weft_edits of weft/strategy.h documents them --- */

weft_status plan_edit_stage(void *ctx, const char *blocks, const char *mesh_axis, uint32_t stage,
                            uint32_t chunk, uint32_t flags); /* stages.c */
weft_status plan_edit_order(void *ctx, const char *mesh_axis, uint32_t stage,
                            const weft_work *cells, uint32_t n, uint32_t flags);
weft_status plan_edit_group(void *ctx, const char *name, const char *mesh_axis,
                            const uint32_t *coords, uint32_t n, uint32_t flags);
weft_status plan_edit_periodic_list(void *ctx, const char *name, uint32_t every, uint32_t flags,
                                    weft_emit emit, void *user); /* lists.c */

/* WEFT_USAGE unless every block has a stage and every order has each cell exactly once. */
weft_status plan_stages_finish(plan_edit_state *e);

#endif
