/* bad/strategy.c: data parallelism over a mesh axis of its own, and its ways of failing. Each name
 * of strategy.expected breaks one rule. */
#include "faults.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <weft/coll.h>
#include <weft/strategy.h>

#define AXIS (BAD == CLASH ? "dp" : "team")

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_BATCH, AXIS, "team",
                                    "ranks that share the batch"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};

static const char *kept; /* the name of a tensor, read in a later call */

static weft_status keep_name(const weft_view *view)
{
    weft_tensor_info info = {.struct_size = sizeof info};
    const weft_status st = view->tensor(view->ctx, 1, &info);
    kept = info.name;
    return st;
}

/* p = the mean of all coordinates' p */
static weft_status average(void *user, const weft_builder *b)
{
    const weft_view *view = user;
    const weft_comm_args sum = {
        .struct_size = sizeof sum, .kind = WEFT_ALL_REDUCE, .redop = WEFT_SUM, .mesh_axis = AXIS};
    weft_tensor share = 0;
    weft_status st = b->constant(b->ctx, 1.0 / view->mesh(view->ctx, AXIS), 0, &share);
    const uint32_t n = view->tensors(view->ctx);
    for (weft_tensor t = 1; st == WEFT_OK && t <= n; t++) {
        weft_tensor in[2] = {0, share}, mean = 0;
        if (b->kind(b->ctx, t) != WEFT_T_PARAM)
            continue;
        st = b->comm(b->ctx, &sum, t, &in[0]);
        if (st == WEFT_OK)
            st = b->op(b->ctx, "mul", NULL, 0, in, 2, 0, &mean, 1);
        if (st == WEFT_OK)
            st = b->assign(b->ctx, t, mean, 0);
    }
    return st;
}

/* A scalar: the number of parameters. */
static weft_status count(void *user, const weft_builder *b)
{
    const weft_view *view = user;
    weft_tensor to = 0, number = 0;
    double params = 0;
    weft_status st = b->scalar(b->ctx, "acme.team.params", 0, &to);
    for (weft_tensor t = 1; st == WEFT_OK && t <= view->tensors(view->ctx); t++) {
        weft_tensor_info info = {.struct_size = sizeof info};
        st = view->tensor(view->ctx, t, &info);
        params += info.kind == WEFT_T_PARAM;
    }
    if (st == WEFT_OK)
        st = b->constant(b->ctx, params, 0, &number);
    if (st == WEFT_OK)
        st = b->assign(b->ctx, to, number, 0);
    return st != WEFT_OK && BAD == EMIT_SWALLOWS ? WEFT_INTERNAL : st;
}

/* The same op again, in the place of an op. */
typedef struct again {
    const char *id;
    const weft_opcall *call;
} again;

static weft_status emit_again(void *user, const weft_builder *b)
{
    const again *a = user;
    weft_tensor out[8] = {0};
    weft_shape s;
    weft_status st = b->op(b->ctx, a->id, a->call->attrs, a->call->nattr, a->call->in, a->call->nin,
                           0, out, a->call->nout);
    if (st == WEFT_OK)
        st = b->shape(b->ctx, a->call->in[0], &s);
    for (uint32_t k = 0; st == WEFT_OK && k < a->call->nout; k++)
        st = b->assign(b->ctx, a->call->out[k], out[k], 0);
    if (st == WEFT_OK && s.dtype == WEFT_BF16)
        st = b->assign(b->ctx, a->call->out[0], out[0], 0);
    return st;
}

static weft_status replace_attention(const weft_view *view, const weft_edits *edits)
{
    weft_status st = WEFT_OK;
    const uint32_t n = view->ops(view->ctx); /* a replacement adds ops */
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
        weft_opcall call = {.struct_size = sizeof call};
        again a = {NULL, &call};
        st = view->op(view->ctx, i, &a.id, &call);
        if (st == WEFT_OK && !strcmp(a.id, "attention"))
            st = edits->replace(edits->ctx, i, 0, emit_again, &a);
    }
    return st;
}

static weft_status split(const weft_host *host, const weft_view *view, const weft_edits *edits)
{
    if (BAD == HARD_NAMES && strncmp(view->block(view->ctx, 1), "block.", 6) != 0)
        return (host->fail)(host->ctx, WEFT_USAGE, "the second block is not called block.0");
    if (BAD == NO_COMPANY && (view->mesh(view->ctx, "dp") > 1 || view->mesh(view->ctx, "tp") > 1))
        return WEFT_UNSUPPORTED;
    weft_status st = edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
    if (st == WEFT_OK && BAD == ASSIGNS_TWICE)
        st = replace_attention(view, edits);
    if (st == WEFT_OK && BAD == CLAIMS)
        st = edits->changes_results(edits->ctx, "sums have another order", 0);
    return st == WEFT_OK && BAD == KEEPS_NAME ? keep_name(view) : st;
}

static weft_status sync(const weft_view *view, const weft_edits *edits)
{
    const char *rank = getenv("RANK");
    const uint64_t bucket = BAD == RANKED && rank && *rank == '1' ? 4096 : 1 << 20;
    if (BAD == KEEPS_NAME && kept && !*kept)
        return WEFT_INTERNAL;
    if (BAD == EVEN_ONLY && view->mesh(view->ctx, AXIS) % 2)
        return WEFT_OK;
    if (BAD == SILENT) {
        const weft_status st = edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_NEVER, 0, 0);
        return st != WEFT_OK ? st
                             : edits->periodic_list(edits->ctx, "acme.average", 4, 0, average,
                                                    (void *)(uintptr_t)view);
    }
    const weft_status st = edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_LAST, bucket, 0);
    if (st == WEFT_OK)
        return edits->periodic_list(edits->ctx, "acme.count", 4, 0, count, (void *)(uintptr_t)view);
    return BAD == SWALLOWS && st == WEFT_UNSUPPORTED ? WEFT_OK : st;
}

/* Without axes: says something in every other plan. */
static weft_status forget(uint32_t phase, const weft_edits *edits)
{
    static uint32_t plans;
    plans += phase == WEFT_PHASE_SYNC;
    return phase == WEFT_PHASE_SYNC && plans % 2
               ? edits->changes_results(edits->ctx, "every other plan", 0)
               : WEFT_OK;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    const weft_host *host = module;
    (void)conf;
    if (BAD == FORGETS)
        return forget(phase, edits);
    if (BAD == UNKNOWN_PHASE && phase > WEFT_PHASE_MEMORY)
        return (host->fail)(host->ctx, WEFT_USAGE, "this phase is unknown");
    if (view->mesh(view->ctx, AXIS) < 2)
        return BAD == GREETS && phase == WEFT_PHASE_SYNC
                   ? edits->changes_results(edits->ctx, "a team of one", 0)
                   : WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return split(host, view, edits);
    return phase == WEFT_PHASE_SYNC ? sync(view, edits) : WEFT_OK;
}

static const weft_strategy table = {
    .struct_size = sizeof table, .axes = BAD == FORGETS ? NULL : axes, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "acme.team",
                                         .help = "splits the batch",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.team", "1", "", components, weft_open_host, NULL);
