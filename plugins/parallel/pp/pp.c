/* plugins/parallel/pp: pipeline parallelism.
 *
 * The blocks of the model are partitioned over the coordinates of the mesh axis "pp", the stages,
 * at about equal cost, or as the option `stages` says. Micro-batches pass through the stages; a
 * schedule (one file each) gives the order in which a stage runs its passes. The core derives all
 * transfers.
 *
 * Per stage boundary and micro-batch, one activation is sent forward and one gradient backward. It
 * loses when a step has few micro-batches: the bubble grows. */
#include "pp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AXIS "pp"

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_MODEL, AXIS, AXIS,
                                    "stages, each with a part of the blocks; times virtual at most "
                                    "layers + 2"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};

static const weft_option schedule = {
    .struct_size = sizeof schedule,
    .type = WEFT_OPT_CHOICE,
    .key = "schedule",
    .dflt = "1f1b",
    .choices = "fthenb|1f1b|interleaved",
    .help = "order in which a stage works on micro-batches; fthenb is GPipe; interleaved "
            "needs virtual = 2 or more"};
static const weft_option virtual_stages = {
    .struct_size = sizeof virtual_stages,
    .type = WEFT_OPT_INT,
    .key = "virtual",
    .dflt = "1",
    .help = "chunks a stage; more than 1 needs schedule = interleaved and "
            "micro-batches in multiples of pp",
    .min = 1,
    .max = 64};
static const weft_option stage_sizes = {.struct_size = sizeof stage_sizes,
                                        .type = WEFT_OPT_STRING,
                                        .key = "stages",
                                        .dflt = "auto",
                                        .help =
                                            "blocks of each stage by hand (3, 4, 4, 3), chunk "
                                            "after chunk; embedding and head count as one each"};
static const weft_option *const options[] = {&schedule, &virtual_stages, &stage_sizes, NULL};

weft_status pp_fail(const weft_host *host, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return host->fail(host->ctx, WEFT_USAGE, text);
}

/* Parse "3, 4, 4, 3" into where each run ends. */
static weft_status by_hand(const weft_host *host, const char *text, uint32_t n, uint32_t parts,
                           uint32_t *end)
{
    uint32_t sum = 0, k = 0;
    for (const char *p = text; *p; k++) {
        char *rest;
        unsigned long blocks = strtoul(p, &rest, 10);
        if (rest == p || !blocks || blocks > n || k == parts)
            return pp_fail(host, "parallel.stages = %s: %u numbers of at least 1 are needed", text,
                           parts);
        end[k] = sum += (uint32_t)blocks;
        rest += strspn(rest, " ,");
        p = rest;
    }
    if (k == parts && sum == n)
        return WEFT_OK;
    return pp_fail(host,
                   "parallel.stages = %s: %u numbers that add up to the model's %u blocks "
                   "are needed (its layers, the embedding and the head)",
                   text, parts, n);
}

static weft_status check(const weft_host *host, const weft_conf *conf, const weft_view *view,
                         uint32_t stages, uint32_t chunks)
{
    const bool interleaved = !strcmp(conf->text(conf->ctx, "schedule"), "interleaved");
    const uint32_t blocks = view->blocks(view->ctx), passes = view->micro_batches(view->ctx);
    if (chunks == 1 && interleaved)
        return pp_fail(host, "parallel.schedule = interleaved needs parallel.virtual of 2 or more: "
                             "with one chunk a stage it is the schedule 1f1b");
    if (chunks > 1 && !interleaved)
        return pp_fail(host, "parallel.virtual = %u needs schedule = interleaved", chunks);
    if ((uint64_t)stages * chunks > blocks)
        return pp_fail(host,
                       "parallel.pp = %u times parallel.virtual = %u are more parts than the "
                       "model's %u blocks (its layers, the embedding and the head)",
                       stages, chunks, blocks);
    if (interleaved && chunks > 1 && passes % stages)
        return pp_fail(host,
                       "the interleaved schedule needs micro-batches in multiples of parallel.pp = "
                       "%u, and a step has %u (train.batch over train.microbatch and dp)",
                       stages, passes);
    return WEFT_OK;
}

/* Assign each block to a stage and chunk; out: [blocks] stages, [blocks] chunks. */
static weft_status divide(const weft_host *host, const weft_conf *conf, const weft_view *view,
                          uint32_t stages, uint32_t chunks, uint32_t *out)
{
    const char *hand = conf->text(conf->ctx, "stages");
    const uint32_t n = view->blocks(view->ctx), parts = stages * chunks;
    double *cost = host->alloc(host->ctx, n * sizeof *cost, 0);
    uint32_t *end = host->alloc(host->ctx, parts * sizeof *end, 0);
    weft_status st =
        cost && end ? WEFT_OK : host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for stages");
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++)
        cost[i] = view->block_flops(view->ctx, i);
    if (st == WEFT_OK)
        st = strcmp(hand, "auto") ? by_hand(host, hand, n, parts, end)
                                  : pp_balance(host, cost, n, parts, end);
    for (uint32_t i = 0, k = 0; st == WEFT_OK && i < n; i++) {
        k += i == end[k];
        out[i] = k % stages;
        out[n + i] = k / stages;
    }
    host->free(host->ctx, cost);
    host->free(host->ctx, end);
    return st;
}

static pp_schedule *schedule_of(const weft_conf *conf, uint32_t chunks)
{
    const char *name = conf->text(conf->ctx, "schedule");
    if (!strcmp(name, "fthenb"))
        return pp_fthenb;
    return chunks > 1 ? pp_interleaved
                      : pp_onefoneb; /* with one chunk both schedules are the same */
}

static weft_status emit_orders(const weft_host *host, const weft_conf *conf, const weft_view *view,
                               const weft_edits *edits, uint32_t stages, uint32_t chunks)
{
    pp_shape shape = {stages, 0, chunks, view->micro_batches(view->ctx)};
    const uint64_t n = (uint64_t)2 * chunks * shape.passes;
    weft_work *work = n > UINT32_MAX ? NULL : host->alloc(host->ctx, n * sizeof *work, 0);
    weft_status st =
        work ? WEFT_OK : host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for a schedule");
    for (; st == WEFT_OK && shape.stage < stages; shape.stage++) {
        schedule_of(conf, chunks)(&shape, work);
        st = edits->order(edits->ctx, AXIS, shape.stage, work, (uint32_t)n, 0);
    }
    host->free(host->ctx, work);
    return st;
}

static weft_status pp_edit(void *module, const weft_conf *conf, uint32_t phase,
                           const weft_view *view, const weft_edits *edits)
{
    const weft_host *host = module;
    const uint32_t stages = view->mesh(view->ctx, AXIS), blocks = view->blocks(view->ctx);
    const uint32_t chunks = (uint32_t)conf->integer(conf->ctx, "virtual");
    if (stages < 2 || (phase != WEFT_PHASE_STAGE && phase != WEFT_PHASE_SYNC))
        return WEFT_OK;
    weft_status st = check(host, conf, view, stages, chunks);
    uint32_t *of =
        st != WEFT_OK ? NULL : host->alloc(host->ctx, 2 * (uint64_t)blocks * sizeof *of, 0);
    if (st == WEFT_OK && !of)
        st = host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for stages");
    if (st == WEFT_OK)
        st = divide(host, conf, view, stages, chunks, of);
    if (st == WEFT_OK)
        st = pp_tied(host, view, edits, AXIS, of, stages, phase == WEFT_PHASE_SYNC);
    for (uint32_t i = 0; st == WEFT_OK && phase == WEFT_PHASE_STAGE && i < blocks; i++)
        st = edits->stage(edits->ctx, view->block(view->ctx, i), AXIS, of[i], of[blocks + i], 0);
    if (st == WEFT_OK && phase == WEFT_PHASE_STAGE)
        st = emit_orders(host, conf, view, edits, stages, chunks);
    host->free(host->ctx, of);
    return st;
}

static const weft_strategy table = {.struct_size = sizeof table, .axes = axes, .edit = pp_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "pp",
                                         .help = "pipeline parallelism: every stage has a part of "
                                                 "the blocks",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.pp", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
