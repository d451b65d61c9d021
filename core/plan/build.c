/* plan/build.c: the passes that turn a resolved job into its plan.
 *
 * A table at the end names the passes; one loop runs them in order and measures each. */
#include "plan/passes/passes.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/number/digest.h"
#include "plan/collective.h"
#include "plan/emit.h"
#include "plan/lower/sync.h"
#include "plan/optim/optim.h"
#include "plan/optim/rule.h"
#include "plan/scalar.h"

#include <stdlib.h>
#include <string.h>

/* --- the other passes, in order --- */

static weft_status ask_stages(plan_builder *b)
{
    return plan_edits_run(b->edits, WEFT_PHASE_STAGE);
}

static weft_status list_params(plan_builder *b)
{
    plan_flat_list(b->g, b->stages, &b->p->pool, b->f);
    return WEFT_OK;
}

static weft_status ask_sync(plan_builder *b)
{
    return plan_edits_run(b->edits, WEFT_PHASE_SYNC);
}

static weft_status ask_memory(plan_builder *b)
{
    return plan_edits_run(b->edits, WEFT_PHASE_MEMORY);
}

static weft_status find_sums(plan_builder *b)
{
    weft_status st = plan_pass_check_axes(b);
    if (st == WEFT_OK)
        st = plan_sync_prepare(b);
    if (st == WEFT_OK)
        st = plan_groups_prepare(b);
    return st != WEFT_OK ? st : plan_interval_prepare(b);
}

static weft_status place_params(plan_builder *b)
{
    return plan_flat_place(b->f, b->sync && plan_rule_by_element(b) ? b->sync->bucket_elements : 0);
}

static weft_status add_recompute(plan_builder *b)
{
    graph_recompute(b->g);
    graph_share_gathers(b->g);
    return WEFT_OK;
}

static weft_status find_liveness(plan_builder *b)
{
    plan_liveness_find(b);
    return WEFT_OK;
}

static weft_status list_micro_batches(plan_builder *b)
{
    weft_status st = plan_clear_loss(b, &b->p->step);
    return st == WEFT_OK ? plan_micro_batches(b, &b->p->step, true, b->p->micro_batches) : st;
}

static weft_status list_eval(plan_builder *b)
{
    plan_liveness_find(b);
    weft_status st = plan_clear_loss(b, &b->p->eval);
    if (st == WEFT_OK)
        st = plan_micro_batches(b, &b->p->eval, false, 1);
    return st == WEFT_OK ? plan_emit_scalar_sum(b, &b->p->eval, "loss", plan_loss_axes(b)) : st;
}

static weft_status add_up_memory(plan_builder *b)
{
    if (b->p->scalars.n > MAX_SCALARS)
        return err_fail(WEFT_UNSUPPORTED, "the job has more than %u scalars", MAX_SCALARS);
    plan_regions_finish(b);
    plan_compress_finish(b);
    return WEFT_OK;
}

/* --- the table --- */

#define TRAIN (1u << SPEC_TRAIN)
#define FORWARD (1u << SPEC_FORWARD)
#define GENERATE (1u << SPEC_GENERATE)
#define EVAL (1u << SPEC_EVAL)
#define ALL (TRAIN | FORWARD | GENERATE | EVAL)

static const struct pass {
    const char *name;
    weft_status (*run)(plan_builder *b);
    uint32_t want; /* jobs that need it, bits 1 << spec.want */
} passes[] = {
    {"dp size", plan_pass_dp_size, TRAIN | EVAL},  /* from what strategies declare */
    {"forward graph", plan_pass_forward, TRAIN},   /* of one micro-batch: split edits, placements */
    {"backward graph", plan_pass_backward, TRAIN}, /* gradients */
    {"logits graph", plan_pass_logits, FORWARD},   /* the forward of one sequence, without caches */
    {"prompt graph", plan_pass_prompt, GENERATE},  /* the forward of a chunk of one, with caches */
    {"eval graph", plan_pass_eval, EVAL},
    {"stage edits", ask_stages, ALL},    /* blocks of each stage, and its order of work */
    {"parameters", list_params, ALL},    /* those of this stage, block by block */
    {"sync edits", ask_sync, TRAIN},     /* sums of gradients, sharding, lists of plugins */
    {"memory edits", ask_memory, TRAIN}, /* activations that are stored or recomputed */
    {"gradient sums", find_sums, TRAIN}, /* over which mesh axes, and when */
    {"compression", plan_compress_prepare, TRAIN}, /* which of these sums are compressed */
    {"shard levels", plan_shard_levels, TRAIN},    /* of each block: state, gradients, parameters */
    {"flat layout", place_params, ALL},            /* element ranges of parameters and groups */
    {"recomputation", add_recompute, TRAIN},       /* by backward; gathers that are shared */
    {"regions", plan_regions_params, ALL}, /* inputs, compute copy, fp32 masters in the arena */
    {"update rule", plan_update_prepare, TRAIN},      /* the graphs of the rule, and its states */
    {"list states", plan_periodic_states, TRAIN},     /* the states of periodic lists */
    {"state regions", plan_regions_state, ALL},       /* states and gradients in the arena */
    {"caches", plan_pass_caches, GENERATE},           /* of keys and values in the arena */
    {"liveness", find_liveness, TRAIN | FORWARD},     /* who shares memory, is saved or lives on */
    {"micro-batches", list_micro_batches, TRAIN},     /* forward, backward, sums, stages */
    {"logits list", plan_pass_logits_list, FORWARD},  /* forward as a list */
    {"end of step", plan_end_of_step, TRAIN},         /* norm, scalars, updates, loss */
    {"periodic lists", plan_periodic_lists, TRAIN},   /* the lists of plugins */
    {"save list", plan_pieces, ALL},                  /* what each rank writes into a checkpoint */
    {"prompt list", plan_pass_prompt_list, GENERATE}, /* what fills the caches from a chunk */
    {"decode graph", plan_pass_decode, GENERATE},     /* the forward of one row, with caches */
    {"decode list", plan_pass_decode_list, GENERATE}, /* its list; every rank gets the logits */
    {"eval graph", plan_pass_eval, TRAIN},  /* the forward of one micro-batch, no gradients */
    {"eval list", list_eval, TRAIN | EVAL}, /* its list */
    {"memory", add_up_memory, ALL},         /* workspace, scratch, residuals; bytes by purpose */
};

/* Add to the time of a pass, which runs once per stage. */
static void note_time(plan_set *set, const char *name, uint64_t since)
{
    uint32_t i = 0;
    while (i < set->timings.n && strcmp(set->timings.at[i].name, name))
        i++;
    if (i == set->timings.n)
        *vec_push(&set->timings) = (plan_timing){name, 0};
    set->timings.at[i].seconds += (double)(clock_ns() - since) * 1e-9;
}

static weft_status run_passes(plan_set *set, plan_builder *b)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < sizeof passes / sizeof *passes; i++) {
        const uint64_t since = clock_ns();
        if (!(passes[i].want >> b->p->spec->want & 1))
            continue;
        st = passes[i].run(b);
        note_time(set, passes[i].name, since);
    }
    return st;
}

static void free_built(plan_builder *b)
{
    plan_update_free(b);
    plan_sync_free(b);
    plan_zones_free(&b->zones);
    graph_free(b->g);
    plan_flat_free(b->f);
    plan_edits_free(b->edits);
}

/* Build the plan of the ranks of one stage; *axis is the mesh axis of the stages. */
static weft_status build_one(plan_set *set, uint32_t stage, plan *out, int32_t *axis)
{
    const spec *s = set->spec;
    *out = (plan){.spec = s, .step.name = "step", .eval.name = "eval", .save.name = "save"};
    out->stage = stage;
    out->dp_size = out->micro_batches = 1;
    graph g = {0};
    plan_flat flat = {0};
    /* Where there is no step, strategies are told a number that every schedule can divide among
     * stages. */
    plan_edit_state edits = {.g = &g,
                             .s = s,
                             .pool = &out->pool,
                             .micro_batches = s->want == SPEC_TRAIN ? 1 : s->ranks,
                             .stages = {.axis = -1, .mine = stage}};
    plan_builder b = {.p = out,
                      .g = &g,
                      .f = &flat,
                      .edits = &edits,
                      .stages = &edits.stages,
                      .groups = &edits.groups};
    out->zones = &b.zones;
    plan_scalar_offset(out, "scale", s->loss_scale);
    plan_scalar_offset(out, "loss", 0);
    weft_status st = run_passes(set, &b);
    out->changes = edits.changes;
    *axis = edits.stages.axis;
    out->zones = NULL;
    free_built(&b);
    return st;
}

/* Give all plans the same channels in the same order, so that ranks of all stages open them in the
 * same order. */
static void unite_channels(plan_set *set)
{
    plan *first = &set->at[0];
    for (uint32_t i = 1; i < set->n; i++)
        for (uint32_t k = 0; k < set->at[i].channels.n; k++) {
            const plan_channel *c = &set->at[i].channels.at[k];
            plan_channel_some(first, c->name, c->mesh_axis, c->coords, c->ncoords);
        }
    for (uint32_t i = 1; i < set->n; i++) {
        plan *p = &set->at[i];
        uint32_t *to = mem_alloc(p->channels.n * sizeof *to + 1), was = p->channels.n;
        for (uint32_t k = 0; k < was; k++)
            to[k] = plan_channel_some(first, p->channels.at[k].name, 0, NULL, 0);
        p->channels.n = 0;
        for (uint32_t k = 0; k < first->channels.n; k++)
            *vec_push(&p->channels) = first->channels.at[k];
        for (uint32_t k = 0; k < p->collectives.n; k++)
            p->collectives.at[k].channel = to[p->collectives.at[k].channel];
        free(to);
    }
}

static void sum_up(plan_set *set)
{
    double flops = 0;
    uint64_t elements = 0;
    set->digest = DIGEST_BEGIN;
    for (uint32_t i = 0; i < set->n; i++) {
        plan *p = &set->at[i];
        plan_digest(p);
        set->digest = (set->digest ^ p->digest) * 1099511628211ull;
        set->peak = p->bytes.peak > set->peak ? p->bytes.peak : set->peak;
        flops += p->flops_step / set->n;
        elements += p->param_elements;
    }
    for (uint32_t i = 0; i < set->n; i++) {
        set->at[i].flops_step = flops;
        set->at[i].param_elements = elements;
    }
}

weft_status plan_build(const spec *s, plan_set *out)
{
    *out = (plan_set){.spec = s, .stage_axis = -1};
    out->at = mem_alloc((s->ranks ? s->ranks : 1) * sizeof *out->at);
    uint32_t stages = 1;
    for (uint32_t i = 0; i < stages; i++) {
        weft_status st = build_one(out, i, &out->at[out->n++], &out->stage_axis);
        if (st != WEFT_OK)
            return st;
        stages = out->stage_axis < 0 ? 1 : s->mesh.size[out->stage_axis];
    }
    uint64_t since = clock_ns();
    unite_channels(out);
    note_time(out, "channels", since);
    since = clock_ns();
    sum_up(out);
    note_time(out, "digest", since);
    return WEFT_OK;
}
