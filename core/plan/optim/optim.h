/* plan/optim/optim.h: the end of a step: norm, scalars, updates; and periodic lists. */
#ifndef PLAN_OPTIM_OPTIM_H
#define PLAN_OPTIM_OPTIM_H

#include "plan/builder.h"
#include "plan/edits/edits.h"

/* --- update.c, update_each.c: the updates of the rule --- */

weft_status plan_update_prepare(builder *b); /* build the rule's graphs, list its states */
void plan_update_free(builder *b);           /* free them */
weft_status plan_updates(builder *b, list *l);
weft_status plan_each_prepare(builder *b);
weft_status plan_each_updates(builder *b, list *l);
void plan_each_free(builder *b);

/* --- groups.c: parameter groups --- */
weft_status plan_groups_prepare(builder *b);

/* --- interval.c: parameters that are updated in some steps only --- */

/* Read the edits, after those of the sums. */
weft_status plan_interval_prepare(builder *b, const edit_state *e);

/* After the updates: gradients to which each micro-batch adds begin at 0 again. */
weft_status plan_interval_clear(builder *b, list *l);

/* --- norm.c: the global norm of the gradients; waits for their sums --- */
weft_status plan_grad_norm(builder *b, list *l);

/* --- step.c: norm, scalars, updates, loss --- */
weft_status plan_end_of_step(builder *b, list *l);
weft_status plan_clear_loss(builder *b, list *l); /* on stages that do not write it */
uint64_t plan_loss_axes(const builder *b);        /* mesh axes over which it is summed */

/* --- periodic.c: lists of plugins that run every N steps --- */
weft_status plan_periodic_states(builder *b, const edit_state *e); /* add their states */
weft_status plan_periodic_lists(builder *b, const edit_state *e);

#endif
