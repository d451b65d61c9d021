/* plan/passes/passes.h: a plan under construction, and the passes that make its graphs.
 *
 * build.c has the table of all passes and runs them; plan.h documents what each does. A pass reads
 * and fills the members of one plan_builder; the plan of each stage has its own. */
#ifndef PLAN_PASSES_PASSES_H
#define PLAN_PASSES_PASSES_H

#include "plan/builder.h"

/* --- graphs.c --- */

/* Build the forward graph of one micro-batch of `dp_size` ranks, split by the strategies: b->g,
 * which is empty, and b->result. `rows` of a sample; the loss is averaged over `average` samples;
 * `want` as the family takes it. */
weft_status plan_graph_build(plan_builder *b, uint32_t want, uint32_t dp_size, int64_t rows,
                             double average);

weft_status plan_pass_dp_size(plan_builder *b); /* number of data-parallel ranks */
weft_status plan_pass_forward(plan_builder *b); /* of training, and its gradients */
weft_status plan_pass_backward(plan_builder *b);
weft_status plan_pass_eval(plan_builder *b);   /* replaces the graph that is there */
weft_status plan_pass_logits(plan_builder *b); /* of one whole sequence, without caches */

/* Is the graph split as its strategies have declared? After all edits, so that what is wrong with
 * one of them is said first. [plan] */
weft_status plan_pass_check_axes(const plan_builder *b);

/* --- generate.c: lists that continue a sequence, with caches of keys and values --- */

weft_status plan_pass_prompt(plan_builder *b);      /* graph of a chunk of a prompt */
weft_status plan_pass_caches(plan_builder *b);      /* places the caches in the arena */
weft_status plan_pass_prompt_list(plan_builder *b); /* without what only makes logits */
weft_status plan_pass_decode(plan_builder *b);      /* graph of one row */
weft_status plan_pass_decode_list(plan_builder *b);

/* The forward of one sequence or row as a list, which leaves its logits, whole, on every rank. */
weft_status plan_pass_logits_list(plan_builder *b);

#endif
