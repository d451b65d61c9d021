/* plan/edits/arguments.c: validates what plugins pass to edits; limits edits per call.
 *
 * The functions here form the table that plugins get. Each checks its arguments and calls the edit
 * itself (apply.c, stages.c, lists.c). The first failure within a call of edit() is stored: the
 * call fails even if the plugin ignores the failure and continues. */
#include "plan/edits/emitters.h"

#include "base/err.h"
#include "base/sized.h"
#include "graph/arguments.h"

#include <string.h>

static plan_edit_state *state(void *ctx)
{
    return ctx;
}

/* Finish an edit: on failure, name the call and the plugin, and store the first reason. */
static weft_status end(plan_edit_state *e, const char *call, weft_status st)
{
    if (st == WEFT_OK || !e)
        return st;
    err_put_name(ERR_CALL, call);
    err_put_name(ERR_OWNER, e->owner);
    if (e->failed == WEFT_OK) {
        e->failed = st;
        e->why = pool_text(e->pool, err_text());
    }
    return st;
}

/* Count one more edit; none of them knows a flag. */
static weft_status begin(plan_edit_state *e, const char *call, uint32_t flags)
{
    if (!e)
        return plan_edits_null(e, call, "ctx");
    if (e->g->now.replacing || e->g->now.state_of)
        return err_fail_in(WEFT_USAGE, ERR_CALL, call,
                           "called while emit() writes graph; emit edits one by one");
    if (e->edits++ < EDITS_MAX)
        return sized_check_flags(call, flags, 0);
    return err_fail_in(WEFT_NO_MEMORY, ERR_CALL, call,
                       "the plugin has emitted %u edits in one call of phase %u, which is the "
                       "limit; check for an endless loop",
                       EDITS_MAX, e->phase);
}

/* Checks of one argument; a failure `st` before it is the result. */
static weft_status glob(weft_status st, const char *call, const char *what, const char *text)
{
    return st != WEFT_OK ? st : graph_check_text(call, what, text, EDITS_MAX_GLOB);
}

static weft_status axis(weft_status st, const char *call, const char *name)
{
    return st != WEFT_OK ? st : graph_check_text(call, "mesh_axis", name, WEFT_MAX_NAME - 1);
}

/* --- the table --- */

static weft_status a_split(void *ctx, const char *tensors, const char *name, const char *mesh_axis,
                           uint32_t flags)
{
    static const char call[] = "edits.split";
    weft_status st = glob(begin(ctx, call, flags), call, "tensors", tensors);
    if (st == WEFT_OK)
        st = graph_check_text(call, "axis", name, WEFT_MAX_NAME - 1);
    st = axis(st, call, mesh_axis);
    return end(ctx, call, st != WEFT_OK ? st : plan_edit_split(ctx, tensors, name, mesh_axis));
}

static weft_status a_replace(void *ctx, uint32_t op, uint32_t flags, weft_emit emit, void *user)
{
    static const char call[] = "edits.replace";
    weft_status st = begin(ctx, call, flags);
    return end(ctx, call, st != WEFT_OK ? st : plan_edit_replace(ctx, op, emit, user));
}

static weft_status a_group(void *ctx, const char *name, const char *mesh_axis,
                           const uint32_t *coords, uint32_t n, uint32_t flags)
{
    static const char call[] = "edits.group";
    weft_status st = begin(ctx, call, flags);
    if (st == WEFT_OK)
        st = graph_check_name(call, "name", name);
    st = axis(st, call, mesh_axis);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "coords", coords);
    return end(ctx, call, st != WEFT_OK ? st : plan_edit_group(ctx, name, mesh_axis, coords, n));
}

static weft_status a_stage(void *ctx, const char *blocks, const char *mesh_axis, uint32_t stage,
                           uint32_t chunk, uint32_t flags)
{
    static const char call[] = "edits.stage";
    plan_edit_state *e = state(ctx);
    weft_status st = glob(begin(e, call, flags), call, "blocks", blocks);
    st = axis(st, call, mesh_axis);
    if (st == WEFT_OK && chunk >= e->g->blocks.n)
        st = err_fail_in(WEFT_USAGE, ERR_CALL, call, "chunk %u of a model of %u blocks", chunk,
                         e->g->blocks.n);
    return end(e, call, st != WEFT_OK ? st : plan_edit_stage(ctx, blocks, mesh_axis, stage, chunk));
}

static weft_status a_order(void *ctx, const char *mesh_axis, uint32_t stage, const weft_work *cells,
                           uint32_t n, uint32_t flags)
{
    static const char call[] = "edits.order";
    plan_edit_state *e = state(ctx);
    weft_status st = axis(begin(e, call, flags), call, mesh_axis);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "work", cells);
    /* one forward and two parts of a backward for each chunk and micro-batch */
    const uint64_t max = st != WEFT_OK ? 0 : 3 * (uint64_t)e->g->blocks.n * e->micro_batches;
    if (st == WEFT_OK && n > max)
        st = err_fail_in(WEFT_USAGE, ERR_CALL, call,
                         "%u cells for stage %u; %u blocks and %llu micro-batches have "
                         "at most %llu",
                         n, stage, e->g->blocks.n, (unsigned long long)e->micro_batches,
                         (unsigned long long)max);
    return end(e, call, st != WEFT_OK ? st : plan_edit_order(ctx, mesh_axis, stage, cells, n));
}

static weft_status a_sync(void *ctx, const char *params, const char *mesh_axis, uint32_t when,
                          uint64_t bucket_bytes, uint32_t flags)
{
    static const char call[] = "edits.sync";
    weft_status st = glob(begin(ctx, call, flags), call, "params", params);
    st = axis(st, call, mesh_axis);
    return end(ctx, call,
               st != WEFT_OK ? st : plan_edit_sync(ctx, params, mesh_axis, when, bucket_bytes));
}

static weft_status a_update(void *ctx, const char *params, uint32_t every, uint64_t from,
                            uint32_t flags)
{
    static const char call[] = "edits.update_every";
    const bool mean = flags & WEFT_UPDATE_MEAN;
    weft_status st = glob(begin(ctx, call, flags & ~WEFT_UPDATE_MEAN), call, "params", params);
    return end(ctx, call,
               st != WEFT_OK ? st : plan_edit_update_every(ctx, params, every, from, mean));
}

static weft_status a_store(void *ctx, uint32_t what, const char *params, const char *mesh_axis,
                           uint32_t ahead, uint32_t flags)
{
    static const char call[] = "edits.shard";
    weft_status st = glob(begin(ctx, call, flags), call, "params", params);
    st = axis(st, call, mesh_axis);
    return end(ctx, call,
               st != WEFT_OK ? st : plan_edit_shard(ctx, what, params, mesh_axis, ahead));
}

static weft_status a_list(void *ctx, const char *name, uint32_t every, uint32_t flags,
                          weft_emit emit, void *user)
{
    static const char call[] = "edits.periodic_list";
    weft_status st = begin(ctx, call, flags);
    if (st == WEFT_OK)
        st = graph_check_name(call, "name", name);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "emit", (const void *)(uintptr_t)emit);
    return end(ctx, call,
               st != WEFT_OK ? st : plan_edit_periodic_list(ctx, name, every, emit, user));
}

static weft_status a_keep(void *ctx, const char *tensors, uint32_t how, const char *mesh_axis,
                          uint32_t flags)
{
    static const char call[] = "edits.activations";
    weft_status st = glob(begin(ctx, call, flags), call, "tensors", tensors);
    if (mesh_axis)
        st = axis(st, call, mesh_axis);
    return end(ctx, call, st != WEFT_OK ? st : plan_edit_activations(ctx, tensors, how, mesh_axis));
}

static weft_status a_carry(void *ctx, const char *params, uint32_t versions, uint32_t flags)
{
    static const char call[] = "edits.weight_versions";
    weft_status st = glob(begin(ctx, call, flags), call, "params", params);
    return end(ctx, call, st != WEFT_OK ? st : plan_edit_weight_versions(ctx, params, versions));
}

/* A single line of text, in any language. */
static weft_status a_changes(void *ctx, const char *text, uint32_t flags)
{
    static const char call[] = "edits.changes_results";
    weft_status st = begin(ctx, call, flags);
    if (st == WEFT_OK)
        st = graph_check_pointer(call, "text", text);
    const size_t n = st != WEFT_OK ? 0 : strnlen(text, EDITS_MAX_LINE + 1);
    if (st == WEFT_OK && (!n || n > EDITS_MAX_LINE))
        st = err_fail_in(WEFT_USAGE, ERR_CALL, call,
                         "the text has %s; a line of 1 to %u bytes is expected",
                         n ? "too many bytes" : "no byte", EDITS_MAX_LINE);
    for (size_t i = 0; st == WEFT_OK && i < n; i++)
        if ((unsigned char)text[i] < 32 || text[i] == 127)
            st = err_fail_in(WEFT_USAGE, ERR_CALL, call,
                             "the text has the control character 0x%02x; one line is "
                             "expected",
                             (unsigned)text[i]);
    return end(ctx, call, st != WEFT_OK ? st : plan_edit_changes_results(ctx, text));
}

weft_edits plan_edits_table(plan_edit_state *e)
{
    return (weft_edits){sizeof(weft_edits),
                        0,
                        e,
                        a_split,
                        a_replace,
                        a_group,
                        a_stage,
                        a_order,
                        a_sync,
                        a_store,
                        a_list,
                        a_keep,
                        a_carry,
                        a_changes,
                        a_update};
}
