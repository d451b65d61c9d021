/* plan/optim/optim.h: the end of a step: norm, scalars, updates; and periodic lists. */
#ifndef PLAN_OPTIM_OPTIM_H
#define PLAN_OPTIM_OPTIM_H

#include "plan/builder.h"

/* --- update.c, update_each.c: the updates of the rule --- */

weft_status plan_update_prepare(plan_builder *b); /* build the rule's graphs, list its states */
void plan_update_free(plan_builder *b);           /* free them */
weft_status plan_updates(plan_builder *b, plan_list *l);
weft_status plan_each_prepare(plan_builder *b);
weft_status plan_each_updates(plan_builder *b, plan_list *l);
void plan_each_free(plan_builder *b);

/* --- groups.c: parameter groups --- */
weft_status plan_groups_prepare(plan_builder *b);

/* --- interval.c: parameters that are updated in some steps only --- */

/* Read the edits, after those of the sums. */
weft_status plan_interval_prepare(plan_builder *b);

/* After the updates: gradients to which each micro-batch adds begin at 0 again. */
weft_status plan_interval_clear(plan_builder *b, plan_list *l);

/* --- norm.c: the global norm of the gradients; waits for their sums --- */
weft_status plan_grad_norm(plan_builder *b, plan_list *l);

/* --- step.c: norm, scalars, updates, loss --- */
weft_status plan_end_of_step(plan_builder *b);
weft_status plan_clear_loss(plan_builder *b, plan_list *l); /* on stages that do not write it */
uint64_t plan_loss_axes(const plan_builder *b);             /* mesh axes over which it is summed */

/* --- periodic.c: lists of plugins that run every N steps --- */
weft_status plan_periodic_states(plan_builder *b); /* add their states */
weft_status plan_periodic_lists(plan_builder *b);

#endif
