/* plan/edits/apply.c: what the edits of a strategy do (weft/strategy.h); arguments.c has the table
 * of edits, view.c what a strategy reads. */
#include "plan/edits/emitters.h"

#include "base/err.h"

#include <string.h>

static plan_edit_state *state(void *ctx)
{
    return ctx;
}

/* --- edits --- */

weft_status plan_edit_split(void *ctx, const char *tensors, const char *axis, const char *mesh_name)
{
    plan_edit_state *e = state(ctx);
    uint32_t a = 0;
    weft_status st = plan_edits_in_phase(e, WEFT_PHASE_SPLIT);
    if (st == WEFT_OK)
        st = plan_edits_axis(e, mesh_name, &a);
    if (st == WEFT_OK && a >= FIRST_GROUP)
        st = err_fail(WEFT_USAGE,
                      "'%s' over the group %s; a tensor can be split over a mesh axis only",
                      tensors, mesh_name);
    if (st != WEFT_OK || e->s->mesh.size[a] == 1)
        return st;
    if ((e->s->want == SPEC_FORWARD || e->s->want == SPEC_GENERATE) && !strcmp(axis, "tokens"))
        return WEFT_OK; /* the rows of one sequence: every rank has them all */
    st = graph_split(e->g, tensors, axis, a);
    if (st != WEFT_OK)
        err_context("%s = %u", e->s->size_key[a], e->s->mesh.size[a]);
    return st;
}

weft_status plan_edit_sync(void *ctx, const char *params, const char *mesh_name, uint32_t when,
                           uint64_t bucket_bytes)
{
    plan_edit_state *e = state(ctx);
    uint32_t a = 0;
    weft_status st = plan_edits_in_phase(e, WEFT_PHASE_SYNC);
    if (st == WEFT_OK)
        st = plan_edits_axis(e, mesh_name, &a);
    if (st == WEFT_OK && (when < WEFT_SYNC_LAST || when > WEFT_SYNC_NEVER))
        st = err_fail(WEFT_USAGE, "%u is no time of sums, WEFT_SYNC_...", when);
    bucket_bytes = bucket_bytes ? bucket_bytes : e->s->bucket_bytes;
    if (st == WEFT_OK && bucket_bytes < 1024)
        st = err_fail(WEFT_USAGE, "buckets of %llu bytes; the minimum is 1024",
                      (unsigned long long)bucket_bytes);
    if (st == WEFT_OK)
        *vec_push(&e->syncs) = (plan_sync_edit){
            pool_text(e->pool, params), e->owner, a, when, bucket_bytes, e->placing};
    return st;
}

weft_status plan_edit_replace(void *ctx, uint32_t op, weft_emit emit, void *user)
{
    plan_edit_state *e = state(ctx);
    weft_status st = plan_edits_in_phase(e, WEFT_PHASE_SPLIT);
    if (st == WEFT_OK)
        st = graph_replace(e->g, op, emit, user);
    return st;
}

static weft_status some_parameter(const plan_edit_state *e, const char *params)
{
    return graph_has_param(e->g, params)
               ? WEFT_OK
               : err_fail(WEFT_USAGE, "no parameter has a name like '%s'", params);
}

weft_status plan_edit_update_every(void *ctx, const char *params, uint32_t every, uint64_t from,
                                   bool mean)
{
    plan_edit_state *e = state(ctx);
    weft_status st = plan_edits_in_phase(e, WEFT_PHASE_SYNC);
    if (st == WEFT_OK && !every)
        st = err_fail(WEFT_USAGE, "'%s' in every 0th step; 1 is each step", params);
    if (st == WEFT_OK && mean && from)
        st = err_fail(WEFT_USAGE,
                      "'%s' with the mean of gradients, from step %llu on; gradients add up from "
                      "step 1 on, so `from` is 0",
                      params, (unsigned long long)from);
    if (st == WEFT_OK)
        st = some_parameter(e, params);
    if (st == WEFT_OK && (every > 1 || from))
        *vec_push(&e->updates) =
            (plan_update_edit){pool_text(e->pool, params), e->owner, from, every, mean};
    return st;
}

weft_status plan_edit_shard(void *ctx, uint32_t what, const char *params, const char *axis,
                            uint32_t ahead)
{
    plan_edit_state *e = state(ctx);
    uint32_t a = 0;
    weft_status st = plan_edits_in_phase(e, WEFT_PHASE_SYNC);
    if (st == WEFT_OK)
        st = plan_edits_axis(e, axis, &a);
    if (st == WEFT_OK && (a >= FIRST_GROUP || what < WEFT_SHARD_STATE || what > WEFT_SHARD_PARAMS))
        st = err_fail(WEFT_USAGE, "the kind %u is unknown, or %s is a group and no mesh axis", what,
                      axis);
    if (st == WEFT_OK)
        st = some_parameter(e, params);
    if (st == WEFT_OK && e->s->mesh.size[a] > 1)
        *vec_push(&e->stores) =
            (plan_store_edit){pool_text(e->pool, params), e->owner, what, a, ahead};
    return st;
}

weft_status plan_edit_activations(void *ctx, const char *tensors, uint32_t how, const char *axis)
{
    plan_edit_state *e = state(ctx);
    weft_status st = plan_edits_in_phase(e, WEFT_PHASE_MEMORY);
    if (st == WEFT_OK && how == WEFT_ACTIVATION_SPLIT)
        st = err_fail(WEFT_UNSUPPORTED,
                      "'%s' in shards over '%s'; this version stores an activation whole or "
                      "recomputes it",
                      tensors, axis ? axis : "(no mesh axis)");
    if (st == WEFT_OK && how != WEFT_ACTIVATION_WHOLE && how != WEFT_ACTIVATION_RECOMPUTE)
        st = err_fail(WEFT_USAGE, "'%s' in the unknown mode %u", tensors, how);
    if (st == WEFT_OK)
        st = graph_set_keep(e->g, tensors, how, e->owner);
    return st;
}

weft_status plan_edit_weight_versions(void *ctx, const char *params, uint32_t versions)
{
    (void)ctx, (void)params, (void)versions;
    return err_fail(WEFT_UNSUPPORTED, "this version of weft does not apply this edit");
}

weft_status plan_edit_changes_results(void *ctx, const char *text)
{
    plan_edit_state *e = state(ctx);
    if (e->changes && strlen(e->changes) + strlen(text) > EDITS_MAX_TEXT)
        return err_fail(WEFT_USAGE, "the lines of this job have more than %u bytes",
                        EDITS_MAX_TEXT);
    plan_edits_note_change(e, pool_printf(e->pool, "%s: %s", e->owner, text));
    return WEFT_OK;
}
