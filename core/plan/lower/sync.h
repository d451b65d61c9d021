/* plan/lower/sync.h: gradient buckets, summed during the backward pass. */
#ifndef PLAN_LOWER_SYNC_H
#define PLAN_LOWER_SYNC_H

#include "plan/edits/edits.h"
#include "plan/lower/walk.h"

typedef struct plan_bucket {
    uint64_t first, end; /* elements */
    uint64_t axes;       /* bit a: still to be summed over mesh axis a */
    uint32_t group;      /* 1 + its group in a sharded block; 0: a range of an unsharded one */
    uint32_t pending;    /* 1 + the collective in flight; 0: none */
    uint32_t interval;   /* as in plan_flat_param */
    bool not_owned;      /* another stage counts it in the norm */
} plan_bucket;

struct plan_sync_state {
    VEC(plan_bucket) buckets;
    uint64_t bucket_elements; /* at most */
    plan_bucket open;         /* grows downwards until it is full */
};

/* Determine from the edits which parameters are summed over which axes. Makes b->sync. */
weft_status plan_sync_prepare(plan_builder *b);
void plan_sync_free(plan_builder *b);

/* Add the gradients that work `at` made final to the open bucket; start it when it is full. */
weft_status plan_sync_work_done(plan_list_builder *w, uint32_t at);
weft_status plan_sync_flush(plan_builder *b, plan_list *l); /* start the open bucket */

/* Wait for the sum of the bucket that is in flight; start and await the sum over each axis that is
 * left. */
weft_status plan_sync_finish(plan_builder *b, plan_list *l, plan_bucket *k);

/* Start the sums of a group over `axes`, as a bucket of its own. */
weft_status plan_sync_group(plan_builder *b, plan_list *l, uint32_t group, uint64_t axes);

/* The channel of gradients over a mesh axis, or over group `axis` - FIRST_GROUP. */
uint32_t plan_grads_channel(const plan_builder *b, uint32_t axis);

/* --- compress.c: which sums are compressed --- */

/* Report an error for compression that cannot be applied, and tell the user what is rounded; after
 * plan_sync_prepare(). */
weft_status plan_compress_prepare(plan_builder *b);

/* Mark a sum over `axis` as compressed if the job asks for it. `residual_used`: the
 * same residual was already used in this step. */
void plan_compress_sum(plan_builder *b, plan_collective *c, uint32_t axis, bool residual_used);

/* Place the residuals after all other memory. */
void plan_compress_finish(plan_builder *b);

#endif
