/* plan/build.c: the passes that turn a resolved job into its plan.
 *
 * A table names the passes; one loop runs them in order and measures each. plan.h documents them.
 *
 * The number of data-parallel ranks is found by building the graph once with a batch that any mesh
 * divides: the strategies split it, and the mesh axes over which its inputs are then split are the
 * data-parallel ones. The second graph has the true sizes. */
#include "plan/builder.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/number/digest.h"
#include "graph/inputs.h"
#include "host/call.h"
#include "plan/collective.h"
#include "plan/emit.h"
#include "plan/layout/shard_level.h"
#include "plan/lower/compress.h"
#include "plan/lower/sync.h"
#include "plan/lower/zero_schedule.h"
#include "plan/model.h"
#include "plan/optim/optim.h"
#include "plan/optim/rule.h"
#include "plan/scalar.h"

#include <stdlib.h>
#include <string.h>

/* One plan under construction. */
typedef struct making {
    const spec *s;
    plan *p;
    edit_state edits;
    flat flat;
    graph g;
    builder b;
    uint32_t sharing;   /* data-parallel ranks */
    weft_tensor result; /* the loss of a micro-batch, or the logits */
    uint64_t built;     /* what the family has built: plan/model.h */
} making;

/* --- graphs --- */

/* Data-parallel ranks: the product of the mesh axes that split the input, without those that split
 * sequences. */
static weft_status data_ranks(plan *p, const graph *g, uint32_t *sharing)
{
    const weft_tensor t = graph_first_input(g);
    *sharing = 1;
    for (uint32_t a = 0; t && a < g->mesh->n; a++) {
        if (graph_tensor(g, t)->place[a].kind != WEFT_SPLIT)
            continue;
        bool cuts = p->spec->sequence_axes >> a & 1;
        *(cuts ? &p->cut_axes : &p->data_axes) |= (uint64_t)1 << a;
        *sharing *= cuts ? 1 : g->mesh->size[a];
        if (cuts && p->data_axes)
            return err_fail(WEFT_USAGE,
                            "%s splits sequences, but a strategy named before it distributes whole "
                            "sequences: in parallel.strategy, name that one after it",
                            p->spec->size_key[a]);
    }
    return WEFT_OK;
}

/* Find an op among those of the plugins that the job uses. */
static const weft_op *plugin_op(void *ctx, const char *id, weft_op_self *self)
{
    uint32_t n = host_used(ctx, "weft.op/1", NULL, 0);
    const component **all = mem_alloc(n * sizeof *all + 1), *found = NULL;
    n = host_used(ctx, "weft.op/1", all, n);
    for (uint32_t i = 0; !found && i < n; i++)
        found = strcmp(all[i]->name, id) ? NULL : all[i];
    free(all);
    if (!found || host_open(ctx, found) != WEFT_OK)
        return NULL;
    self->module = found->module;
    self->conf = found->no_options;
    return found->table;
}

/* Build the forward graph of one micro-batch of all data-parallel ranks, split by the strategies.
 * `batch`: samples over which the loss is averaged. */
static weft_status forward_graph(making *m, graph *g, uint32_t sharing, uint32_t want, double batch,
                                 weft_tensor *result)
{
    const spec *s = m->s;
    graph_init(g, &s->mesh, s->compute, s->grad_dtype);
    g->find = plugin_op;
    g->find_ctx = s->host;
    weft_status st = plan_model_build(g, s, sharing, batch, want, &m->built, result);
    if (st != WEFT_OK)
        return st;
    m->edits.g = g;
    return s->want == SPEC_TRAIN ? plan_edits_run(&m->edits, WEFT_PHASE_SPLIT) : WEFT_OK;
}

static weft_status check_batch(const spec *s, uint32_t sharing)
{
    const uint64_t each = s->microbatch * sharing;
    if (s->batch && s->batch % each == 0)
        return WEFT_OK;
    return resolve_refuse(s, CONSTRAINT_BATCH, "train.batch",
                          (config_fact[]){{"train.batch", (long long)s->batch, NULL},
                                          {"train.microbatch", (long long)s->microbatch, NULL},
                                          {"sharing", sharing, NULL},
                                          {0}});
}

static weft_status find_sharing(making *m)
{
    const spec *s = m->s;
    graph probe;
    weft_tensor loss;
    weft_status st = forward_graph(m, &probe, s->ranks, WEFT_MODEL_TRAIN, 1, &loss);
    if (st == WEFT_OK)
        st = data_ranks(m->p, &probe, &m->sharing);
    graph_free(&probe);
    m->edits.g = NULL;
    if (st == WEFT_OK)
        st = check_batch(s, m->sharing);
    if (st == WEFT_OK)
        m->edits.micro_batches = s->batch / (s->microbatch * m->sharing);
    return st;
}

/* Add the loss of a micro-batch to the scalar that sums over the step. */
static weft_status sum_loss(graph *g, weft_tensor loss)
{
    weft_builder b = graph_builder(g);
    weft_tensor sum, out;
    weft_status st = b.scalar(b.ctx, "loss", 0, &sum);
    g->block = graph_tensor(g, loss)->block;
    if (st == WEFT_OK)
        st = b.op(b.ctx, "accumulate", NULL, 0, &loss, 1, 0, &out, 1);
    if (st != WEFT_OK)
        return st;
    g->nodes.at[g->nodes.n - 1].out[0] = sum;
    graph_tensor(g, sum)->sum = true;
    return WEFT_OK;
}

static weft_status make_forward(making *m)
{
    weft_status st =
        forward_graph(m, &m->g, m->sharing, WEFT_MODEL_TRAIN, (double)m->s->batch, &m->result);
    if (st == WEFT_OK)
        st = sum_loss(&m->g, m->result);
    uint32_t end = m->g.nodes.n;
    return st == WEFT_OK ? graph_propagate(&m->g, 0, &end) : st;
}

static weft_status make_backward(making *m)
{
    const uint32_t forward = m->g.nodes.n;
    weft_status st = graph_backward(&m->g, m->result);
    uint32_t end = m->g.nodes.n;
    if (st == WEFT_OK)
        st = graph_propagate(&m->g, forward, &end);
    weft_tensor sum = st == WEFT_OK ? graph_find(&m->g, "loss") : 0;
    for (uint32_t a = 0; sum && a < m->g.mesh->n; a++)
        if (graph_tensor(&m->g, sum)->place[a].kind == WEFT_PARTIAL_SUM)
            m->b.loss_axes |= (uint64_t)1 << a;
    return st;
}

static weft_status make_eval(making *m)
{
    const double batch = (double)m->s->microbatch * m->sharing;
    graph_free(&m->g);
    plan_liveness_free(&m->b.live);
    weft_status st = forward_graph(m, &m->g, m->sharing, WEFT_MODEL_EVAL, batch, &m->result);
    if (st == WEFT_OK)
        st = sum_loss(&m->g, m->result);
    uint32_t end = m->g.nodes.n;
    return st == WEFT_OK ? graph_propagate(&m->g, 0, &end) : st;
}

static weft_status make_logits(making *m)
{
    const double batch = (double)m->s->microbatch * m->sharing;
    weft_status st = forward_graph(m, &m->g, m->sharing, WEFT_MODEL_LOGITS, batch, &m->result);
    uint32_t end = m->g.nodes.n;
    m->b.live.result = m->result;
    return st == WEFT_OK ? graph_propagate(&m->g, 0, &end) : st;
}

/* --- the other passes, in order --- */

static weft_status ask_stages(making *m)
{
    return plan_edits_run(&m->edits, WEFT_PHASE_STAGE);
}

static weft_status list_params(making *m)
{
    plan_flat_list(&m->g, &m->edits.stages, &m->p->pool, &m->flat);
    return WEFT_OK;
}

static weft_status ask_sync(making *m)
{
    return plan_edits_run(&m->edits, WEFT_PHASE_SYNC);
}

static weft_status ask_memory(making *m)
{
    return plan_edits_run(&m->edits, WEFT_PHASE_MEMORY);
}

static weft_status find_sums(making *m)
{
    return plan_sync_prepare(&m->b, &m->edits);
}

static weft_status check_compression(making *m)
{
    return plan_compress_prepare(&m->b, &m->edits);
}

static weft_status find_levels(making *m)
{
    return plan_shard_levels(&m->flat, &m->edits);
}

static weft_status place_params(making *m)
{
    return plan_flat_place(
        &m->flat, m->b.sync && plan_rule_by_element(&m->b) ? m->b.sync->bucket_elements : 0);
}

static weft_status add_recompute(making *m)
{
    graph_recompute(&m->g);
    graph_share_gathers(&m->g);
    return WEFT_OK;
}

static weft_status place_regions(making *m)
{
    return plan_regions_params(&m->b, m->edits.micro_batches);
}

static weft_status ask_rule(making *m)
{
    return plan_update_prepare(&m->b);
}

static weft_status list_states(making *m)
{
    return plan_periodic_states(&m->b, &m->edits);
}

static weft_status place_states(making *m)
{
    return plan_regions_state(&m->b, m->s->want == SPEC_TRAIN);
}

static weft_status find_liveness(making *m)
{
    plan_liveness_find(&m->b);
    return WEFT_OK;
}

static weft_status list_micro_batches(making *m)
{
    weft_status st = plan_clear_loss(&m->b, &m->p->step);
    return st == WEFT_OK
               ? plan_micro_batches(&m->b, &m->p->step, true, (uint32_t)m->edits.micro_batches)
               : st;
}

static weft_status list_end_of_step(making *m)
{
    return plan_end_of_step(&m->b, &m->p->step);
}

static weft_status list_periodic(making *m)
{
    return plan_periodic_lists(&m->b, &m->edits);
}

static weft_status list_logits(making *m)
{
    return plan_micro_batches(&m->b, &m->p->eval, false, 1);
}

static weft_status list_pieces(making *m)
{
    return plan_pieces(&m->b);
}

static weft_status list_eval(making *m)
{
    plan_liveness_find(&m->b);
    weft_status st = plan_clear_loss(&m->b, &m->p->eval);
    if (st == WEFT_OK)
        st = plan_micro_batches(&m->b, &m->p->eval, false, 1);
    return st == WEFT_OK ? plan_emit_scalar_sum(&m->b, &m->p->eval, "loss", plan_loss_axes(&m->b))
                         : st;
}

static weft_status add_up_memory(making *m)
{
    if (m->p->scalars.n > MAX_SCALARS)
        return err_fail(WEFT_UNSUPPORTED, "the job has more than %u scalars", MAX_SCALARS);
    plan_regions_finish(&m->b);
    plan_compress_finish(&m->b);
    return WEFT_OK;
}

/* --- the table --- */

#define TRAIN (1u << SPEC_TRAIN)
#define FORWARD (1u << SPEC_FORWARD)

static const struct pass {
    const char *name;
    weft_status (*run)(making *m);
    uint32_t want; /* jobs that need it, bits 1 << spec.want */
} passes[] = {
    {"sharing", find_sharing, TRAIN},
    {"forward graph", make_forward, TRAIN},
    {"backward graph", make_backward, TRAIN},
    {"logits graph", make_logits, FORWARD},
    {"stage edits", ask_stages, TRAIN},
    {"parameters", list_params, TRAIN | FORWARD},
    {"sync edits", ask_sync, TRAIN},
    {"memory edits", ask_memory, TRAIN},
    {"gradient sums", find_sums, TRAIN},
    {"compression", check_compression, TRAIN},
    {"shard levels", find_levels, TRAIN},
    {"flat layout", place_params, TRAIN | FORWARD},
    {"recomputation", add_recompute, TRAIN},
    {"regions", place_regions, TRAIN | FORWARD},
    {"update rule", ask_rule, TRAIN},
    {"list states", list_states, TRAIN},
    {"state regions", place_states, TRAIN | FORWARD},
    {"liveness", find_liveness, TRAIN | FORWARD},
    {"micro-batches", list_micro_batches, TRAIN},
    {"logits list", list_logits, FORWARD},
    {"end of step", list_end_of_step, TRAIN},
    {"periodic lists", list_periodic, TRAIN},
    {"save list", list_pieces, TRAIN | FORWARD},
    {"eval graph", make_eval, TRAIN},
    {"eval list", list_eval, TRAIN},
    {"memory", add_up_memory, TRAIN | FORWARD},
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

static weft_status run_passes(plan_set *set, making *m)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < sizeof passes / sizeof *passes; i++) {
        const uint64_t since = clock_ns();
        if (!(passes[i].want >> m->s->want & 1))
            continue;
        st = passes[i].run(m);
        note_time(set, passes[i].name, since);
    }
    return st;
}

static void free_making(making *m)
{
    plan_update_free(&m->b);
    plan_sync_free(&m->b);
    plan_gathers_free(&m->b);
    plan_liveness_free(&m->b.live);
    plan_zones_free(&m->b.zones);
    graph_free(&m->g);
    plan_flat_free(&m->flat);
    plan_edits_free(&m->edits);
}

/* Build the plan of the ranks of one stage; *axis is the mesh axis of the stages. */
static weft_status build_one(plan_set *set, uint32_t stage, plan *out, int32_t *axis)
{
    const spec *s = set->spec;
    *out = (plan){.spec = s, .step.name = "step", .eval.name = "eval", .save.name = "save"};
    out->stage = stage;
    making m = {.s = s, .p = out, .sharing = 1};
    m.edits = (edit_state){
        .s = s, .pool = &out->pool, .micro_batches = 1, .stages = {.axis = -1, .mine = stage}};
    m.b = (builder){
        .p = out, .g = &m.g, .f = &m.flat, .stages = &m.edits.stages, .groups = &m.edits.groups};
    plan_scalar_offset(out, "scale", s->loss_scale);
    plan_scalar_offset(out, "loss", 0);
    weft_status st = run_passes(set, &m);
    out->changes = m.edits.changes;
    out->sharing = m.sharing;
    out->micro_batches = (uint32_t)m.edits.micro_batches;
    *axis = m.edits.stages.axis;
    free_making(&m);
    return st;
}

/* Give all plans the same channels in the same order, so that ranks of all stages open them in the
 * same order. */
static void unite_channels(plan_set *set)
{
    plan *first = &set->at[0];
    for (uint32_t i = 1; i < set->n; i++)
        for (uint32_t k = 0; k < set->at[i].channels.n; k++) {
            const channel *c = &set->at[i].channels.at[k];
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
