/* plan/edits/apply.c: the table of edits (weft/strategy.h), and the edits of tensors and
 * parameters; those of stages and groups are in stages.c, that of lists in lists.c. */
#include "plan/edits/emitters.h"

#include "base/err.h"
#include "graph/arguments.h"

#include <string.h>

static weft_status split(plan_edit_state *e, const char *tensors, const char *axis, uint32_t a)
{
    if (a >= FIRST_GROUP)
        return err_fail(WEFT_USAGE,
                        "'%s' over the group %s; a tensor can be split over a mesh axis only",
                        tensors, e->groups.at[a - FIRST_GROUP].name);
    if (e->s->mesh.size[a] == 1)
        return WEFT_OK;
    if ((e->s->want == SPEC_FORWARD || e->s->want == SPEC_GENERATE) && !strcmp(axis, "tokens"))
        return WEFT_OK; /* the rows of one sequence: every rank has them all */
    const weft_status st = graph_split(e->g, tensors, axis, a);
    if (st != WEFT_OK)
        err_context("%s = %u", e->s->size_key[a], e->s->mesh.size[a]);
    return st;
}

static weft_status edit_split(void *ctx, const char *tensors, const char *axis,
                              const char *mesh_axis, uint32_t flags)
{
    static const char call[] = "edits.split";
    uint32_t a = 0;
    weft_status st = plan_edit_begin(ctx, call, flags, WEFT_PHASE_SPLIT);
    st = plan_edit_glob(st, call, "tensors", tensors);
    if (st == WEFT_OK)
        st = graph_check_text(call, "axis", axis, WEFT_MAX_NAME - 1);
    st = plan_edit_axis(st, ctx, call, mesh_axis, &a);
    return plan_edit_end(ctx, call, st != WEFT_OK ? st : split(ctx, tensors, axis, a));
}

static weft_status edit_replace(void *ctx, uint32_t op, uint32_t flags, weft_emit emit, void *user)
{
    static const char call[] = "edits.replace";
    plan_edit_state *e = ctx;
    weft_status st = plan_edit_begin(e, call, flags, WEFT_PHASE_SPLIT);
    return plan_edit_end(e, call, st != WEFT_OK ? st : graph_replace(e->g, op, emit, user));
}

static weft_status edit_sync(void *ctx, const char *params, const char *mesh_axis, uint32_t when,
                             uint64_t bucket_bytes, uint32_t flags)
{
    static const char call[] = "edits.sync";
    plan_edit_state *e = ctx;
    uint32_t a = 0;
    weft_status st = plan_edit_begin(e, call, flags, WEFT_PHASE_SYNC);
    st = plan_edit_glob(st, call, "params", params);
    st = plan_edit_axis(st, e, call, mesh_axis, &a);
    if (st == WEFT_OK && (when < WEFT_SYNC_LAST || when > WEFT_SYNC_NEVER))
        st = err_fail(WEFT_USAGE, "%u is no time of sums, WEFT_SYNC_...", when);
    if (st == WEFT_OK && !bucket_bytes)
        bucket_bytes = e->s->bucket_bytes;
    if (st == WEFT_OK && bucket_bytes < 1024)
        st = err_fail(WEFT_USAGE, "buckets of %llu bytes; the minimum is 1024",
                      (unsigned long long)bucket_bytes);
    if (st == WEFT_OK)
        *vec_push(&e->syncs) = (plan_sync_edit){
            pool_text(e->pool, params), e->owner, a, when, bucket_bytes, e->placing};
    return plan_edit_end(e, call, st);
}

static weft_status some_parameter(const plan_edit_state *e, const char *params)
{
    return graph_has_param(e->g, params)
               ? WEFT_OK
               : err_fail(WEFT_USAGE, "no parameter has a name like '%s'", params);
}

static weft_status edit_update_every(void *ctx, const char *params, uint32_t every, uint64_t from,
                                     uint32_t flags)
{
    static const char call[] = "edits.update_every";
    plan_edit_state *e = ctx;
    const bool mean = flags & WEFT_UPDATE_MEAN;
    weft_status st = plan_edit_begin(e, call, flags & ~WEFT_UPDATE_MEAN, WEFT_PHASE_SYNC);
    st = plan_edit_glob(st, call, "params", params);
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
    return plan_edit_end(e, call, st);
}

static weft_status edit_shard(void *ctx, uint32_t what, const char *params, const char *mesh_axis,
                              uint32_t ahead, uint32_t flags)
{
    static const char call[] = "edits.shard";
    plan_edit_state *e = ctx;
    uint32_t a = 0;
    weft_status st = plan_edit_begin(e, call, flags, WEFT_PHASE_SYNC);
    st = plan_edit_glob(st, call, "params", params);
    st = plan_edit_axis(st, e, call, mesh_axis, &a);
    if (st == WEFT_OK && (a >= FIRST_GROUP || what < WEFT_SHARD_STATE || what > WEFT_SHARD_PARAMS))
        st = err_fail(WEFT_USAGE, "the kind %u is unknown, or %s is a group and no mesh axis", what,
                      mesh_axis);
    if (st == WEFT_OK)
        st = some_parameter(e, params);
    if (st == WEFT_OK && e->s->mesh.size[a] > 1)
        *vec_push(&e->stores) =
            (plan_store_edit){pool_text(e->pool, params), e->owner, what, a, ahead};
    return plan_edit_end(e, call, st);
}

static weft_status edit_activations(void *ctx, const char *tensors, uint32_t how,
                                    const char *mesh_axis, uint32_t flags)
{
    static const char call[] = "edits.activations";
    plan_edit_state *e = ctx;
    weft_status st = plan_edit_begin(e, call, flags, WEFT_PHASE_MEMORY);
    st = plan_edit_glob(st, call, "tensors", tensors);
    if (st == WEFT_OK && mesh_axis)
        st = graph_check_text(call, "mesh_axis", mesh_axis, WEFT_MAX_NAME - 1);
    if (st == WEFT_OK && how == WEFT_ACTIVATION_SPLIT)
        st = err_fail(WEFT_UNSUPPORTED,
                      "'%s' in shards over '%s'; this version stores an activation whole or "
                      "recomputes it",
                      tensors, mesh_axis ? mesh_axis : "(no mesh axis)");
    if (st == WEFT_OK && how != WEFT_ACTIVATION_WHOLE && how != WEFT_ACTIVATION_RECOMPUTE)
        st = err_fail(WEFT_USAGE, "'%s' in the unknown mode %u", tensors, how);
    if (st == WEFT_OK)
        st = graph_set_keep(e->g, tensors, how, e->owner);
    return plan_edit_end(e, call, st);
}

static weft_status edit_weight_versions(void *ctx, const char *params, uint32_t versions,
                                        uint32_t flags)
{
    static const char call[] = "edits.weight_versions";
    (void)versions;
    weft_status st = plan_edit_glob(plan_edit_begin(ctx, call, flags, 0), call, "params", params);
    if (st == WEFT_OK)
        st = err_fail(WEFT_UNSUPPORTED, "this version of weft does not apply this edit");
    return plan_edit_end(ctx, call, st);
}

/* A single line of text, in any language. */
static weft_status edit_changes_results(void *ctx, const char *text, uint32_t flags)
{
    static const char call[] = "edits.changes_results";
    plan_edit_state *e = ctx;
    weft_status st = plan_edit_begin(e, call, flags, 0);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "text", text);
    const size_t n = st != WEFT_OK ? 0 : strnlen(text, EDITS_MAX_LINE + 1);
    if (st == WEFT_OK && (!n || n > EDITS_MAX_LINE))
        st = err_fail(WEFT_USAGE, "the text has %s; a line of 1 to %u bytes is expected",
                      n ? "too many bytes" : "no byte", EDITS_MAX_LINE);
    for (size_t i = 0; st == WEFT_OK && i < n; i++)
        if ((unsigned char)text[i] < 32 || text[i] == 127)
            st = err_fail(WEFT_USAGE,
                          "the text has the control character 0x%02x; one line is expected",
                          (unsigned)text[i]);
    if (st == WEFT_OK && e->changes && strlen(e->changes) + n > EDITS_MAX_TEXT)
        st = err_fail(WEFT_USAGE, "the lines of this job have more than %u bytes", EDITS_MAX_TEXT);
    if (st == WEFT_OK)
        plan_edits_note_change(e, pool_printf(e->pool, "%s: %s", e->owner, text));
    return plan_edit_end(e, call, st);
}

weft_edits plan_edits_table(plan_edit_state *e)
{
    return (weft_edits){.struct_size = sizeof(weft_edits),
                        .ctx = e,
                        .split = edit_split,
                        .replace = edit_replace,
                        .group = plan_edit_group,
                        .stage = plan_edit_stage,
                        .order = plan_edit_order,
                        .sync = edit_sync,
                        .shard = edit_shard,
                        .periodic_list = plan_edit_periodic_list,
                        .activations = edit_activations,
                        .weight_versions = edit_weight_versions,
                        .changes_results = edit_changes_results,
                        .update_every = edit_update_every};
}
