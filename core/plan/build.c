/* plan/build.c: the whole way from a resolved job to its plan.
 *
 * graph -> split edits -> placements -> backward -> placements -> sync, store and keep edits ->
 * flat layout -> recomputation -> regions -> lists.
 *
 * How many ranks share the data is not told but found: the graph is built once with a batch that
 * any mesh divides, the strategies split it, and the mesh axes over which `tokens` is then split
 * are the data-parallel ones; the second build has the true sizes. */
#include "plan/build.h"
#include "base/digest.h"
#include "base/err.h"
#include "resolve/topology.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SCALARS 64u
#define SCALAR_BYTES 64u

uint64_t scalar_offset(builder *b, const char *name, double start)
{
    for (uint32_t i = 0; i < b->p->scalars.n; i++)
        if (!strcmp(b->p->scalars.at[i].name, name))
            return b->p->scalars.at[i].offset;
    uint64_t at = (uint64_t)b->p->scalars.n * SCALAR_BYTES;
    *vec_push(&b->p->scalars) = (scalar_slot){pool_text(&b->p->pool, name), at, start, 0};
    return at;
}

void scalar_keep(builder *b, const char *name, uint32_t kept)
{
    scalar_offset(b, name, 0);
    for (uint32_t i = 0; i < b->p->scalars.n; i++)
        if (!strcmp(b->p->scalars.at[i].name, name))
            b->p->scalars.at[i].kept = kept;
}

uint64_t plan_scalar(const plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->scalars.n; i++)
        if (!strcmp(p->scalars.at[i].name, name))
            return p->scalars.at[i].offset;
    return UINT64_MAX;
}

/* Data-parallel ranks: the product of the mesh axes over which the input is split, without those
 * that cut sequences. */
static weft_status data_ranks(plan *p, const graph *g, uint32_t *sharing)
{
    weft_tensor t = graph_find(g, "tokens");
    *sharing = 1;
    for (uint32_t a = 0; t && a < g->mesh->n; a++) {
        if (graph_tensor(g, t)->place[a].kind != WEFT_SPLIT)
            continue;
        bool cuts = p->spec->sequence_axes >> a & 1;
        *(cuts ? &p->cut_axes : &p->data_axes) |= (uint64_t)1 << a;
        *sharing *= cuts ? 1 : g->mesh->size[a];
        if (cuts && p->data_axes)
            return fail(WEFT_USAGE,
                        "%s cuts sequences in parts, but a strategy named before its own shares "
                        "out whole ones: in parallel.strategy name that one after it",
                        p->spec->size_key[a]);
    }
    return WEFT_OK;
}

static uint32_t part_of(const plan *p, uint32_t rank, uint64_t axes)
{
    const mesh *m = &p->spec->mesh;
    uint32_t part = 0;
    for (uint32_t a = m->n; a-- > 0;) /* the first axis that splits varies fastest */
        if (axes >> a & 1)
            part = part * m->size[a] + mesh_coord(m, rank, a);
    return part;
}

uint32_t plan_data_part(const plan *p, uint32_t rank)
{
    return part_of(p, rank, p->data_axes);
}

uint32_t plan_token_part(const plan *p, uint32_t rank)
{
    return part_of(p, rank, p->cut_axes);
}

/* An op that a plugin brings, one of those loaded so far. */
static const weft_op *plugin_op(void *ctx, const char *id)
{
    uint32_t n = host_loaded(ctx, "weft.op/1", NULL, 0);
    const component **all = mem_alloc(n * sizeof *all + 1);
    const weft_op *found = NULL;
    n = host_loaded(ctx, "weft.op/1", all, n);
    for (uint32_t i = 0; !found && i < n; i++)
        found = strcmp(all[i]->name, id) ? NULL : all[i]->table;
    free(all);
    return found;
}

static weft_status forward_graph(graph *g, edit_state *e, const spec *s, uint32_t sharing, int want,
                                 double batch, weft_tensor *result)
{
    graph_init(g, &s->mesh, s->compute, s->grad_dtype);
    g->find = plugin_op;
    g->find_ctx = s->host;
    model_options m = s->model;
    m.batch = (int64_t)(s->microbatch * sharing);
    m.weight = 1.0 / (batch * (double)m.sequence);
    m.want = want;
    weft_builder b = graph_builder(g);
    weft_status st = model_build(&b, &m, result);
    if (st)
        return st;
    e->g = g;
    return s->want == SPEC_TRAIN ? edits_run(e, WEFT_PHASE_SPLIT) : WEFT_OK;
}

static weft_status find_sharing(plan *p, edit_state *e, uint32_t *sharing)
{
    const spec *s = p->spec;
    graph probe;
    weft_tensor loss;
    weft_status st = forward_graph(&probe, e, s, s->ranks, 0, 1, &loss);
    *sharing = 1;
    if (!st)
        st = data_ranks(p, &probe, sharing);
    graph_free(&probe);
    e->g = NULL;
    return st;
}

/* The loss of a pass goes into the scalar that sums over the step. */
static weft_status sum_loss(graph *g, weft_tensor loss)
{
    weft_builder b = graph_builder(g);
    weft_tensor sum, out;
    weft_status s = b.scalar(b.ctx, "loss", &sum);
    g->block = graph_tensor(g, loss)->block;
    if (!s)
        s = b.op(b.ctx, "accumulate", NULL, 0, &loss, 1, &out, 1);
    if (s)
        return s;
    g->nodes.at[g->nodes.n - 1].out[0] = sum;
    graph_tensor(g, sum)->sum = true;
    return WEFT_OK;
}

/* What fills the inputs (run/train.c) knows these alone. */
static bool is_filled(const char *input)
{
    return !strcmp(input, "tokens") || !strcmp(input, "targets") || !strcmp(input, "positions");
}

static weft_status count_inputs(plan *p, const graph *g, uint64_t passes, uint64_t *at)
{
    for (uint32_t i = 0; i < g->tensors.n; i++) {
        if (g->tensors.at[i].kind != WEFT_T_INPUT)
            continue;
        if (!is_filled(g->tensors.at[i].name))
            return fail(WEFT_USAGE,
                        "the graph has an input '%s', which nothing fills; there are tokens, "
                        "targets and positions",
                        g->tensors.at[i].name);
        weft_shape local = graph_local(g, i + 1);
        input_slot *x = vec_push(&p->inputs);
        *x = (input_slot){pool_text(&p->pool, g->tensors.at[i].name), *at, 0,
                          shape_elements(&local)};
        x->stride = (shape_bytes(&local) + 63) & ~(uint64_t)63;
        *at += x->stride * passes;
    }
    return WEFT_OK;
}

static uint64_t region(uint64_t *at, uint64_t bytes)
{
    uint64_t here = *at;
    *at = (*at + bytes + 4095) & ~(uint64_t)4095;
    return here;
}

static void set_bases(builder *b)
{
    const flat *f = b->f;
    b->param_at = pool_array(&b->p->pool, f->blocks.n, sizeof *b->param_at);
    b->grad_at = pool_array(&b->p->pool, f->blocks.n, sizeof *b->grad_at);
    for (uint32_t i = 0; i < f->blocks.n; i++) {
        b->param_at[i] = f->compute + f->blocks.at[i].at[FLAT_PARAMS] * f->compute_size;
        b->grad_at[i] = f->grads + f->blocks.at[i].at[FLAT_GRADS] * f->grad_size;
    }
}

static weft_status set_regions(builder *b, const edit_state *e, uint64_t passes)
{
    plan *p = b->p;
    flat *f = b->f;
    bool train = p->spec->want == SPEC_TRAIN;
    uint64_t at = MAX_SCALARS * SCALAR_BYTES;
    weft_status s = count_inputs(p, b->g, passes, &at);
    if (s)
        return s;
    p->bytes.activations = at = (at + 4095) & ~(uint64_t)4095;
    f->compute = f->master = region(&at, f->size[FLAT_PARAMS] * f->compute_size);
    p->bytes.params = at - f->compute;
    uint64_t start = at;
    if (f->compute_size != 4)
        f->master = region(&at, f->size[FLAT_STATE] * 4);
    if (train) {
        s = update_prepare(b); /* says which states there are */
        if (!s)
            s = extra_states(b, e);
        if (s)
            return s;
    }
    for (uint32_t i = 0; i < f->states.n; i++)
        f->states.at[i].offset = region(&at, f->size[FLAT_STATE] * 4);
    p->bytes.state = at - start;
    start = at;
    if (train)
        f->grads = region(&at, f->size[FLAT_GRADS] * f->grad_size);
    p->bytes.grads = at - start;
    b->zone = at;
    set_bases(b);
    return WEFT_OK;
}

static weft_status train_graph(plan *p, edit_state *e, graph *g, builder *b, uint32_t sharing)
{
    weft_tensor loss;
    weft_status s = forward_graph(g, e, p->spec, sharing, 0, (double)p->spec->batch, &loss);
    if (!s)
        s = sum_loss(g, loss);
    uint32_t end = g->nodes.n;
    if (!s)
        s = graph_propagate(g, 0, &end);
    uint32_t forward = g->nodes.n;
    if (!s)
        s = graph_backward(g, loss);
    end = g->nodes.n;
    if (!s)
        s = graph_propagate(g, forward, &end);
    weft_tensor sum = s ? 0 : graph_find(g, "loss");
    for (uint32_t a = 0; sum && a < g->mesh->n; a++)
        if (graph_tensor(g, sum)->place[a].kind == WEFT_PARTIAL_SUM)
            b->loss_axes |= (uint64_t)1 << a;
    return s;
}

static weft_status build_step(plan *p, edit_state *e, flat *f, builder *b, uint32_t sharing)
{
    graph g = {0};
    b->g = &g;
    weft_status s = train_graph(p, e, &g, b, sharing);
    if (!s)
        s = edits_run(e, WEFT_PHASE_STAGE);
    if (!s)
        flat_list(&g, &e->stages, &p->pool, f);
    for (uint32_t ph = WEFT_PHASE_SYNC; !s && ph <= WEFT_PHASE_MEMORY; ph++)
        s = edits_run(e, ph);
    if (!s)
        s = sync_prepare(b, e);
    if (!s)
        s = compress_prepare(b, e);
    if (!s)
        s = store_prepare(b, e);
    if (!s)
        s = flat_place(f, rule_by_element(b) ? b->sync->bucket_elements : 0);
    if (!s) {
        graph_recompute(&g);
        graph_share_gathers(&g);
    }
    if (!s)
        s = set_regions(b, e, e->passes);
    if (!s)
        s = lower_prepare(b);
    if (!s)
        s = clear_loss(b, &p->step);
    if (!s)
        s = build_passes(b, &p->step, true, (uint32_t)e->passes);
    if (!s)
        s = build_end_of_step(b, &p->step);
    if (!s)
        s = build_extra(b, e);
    if (!s)
        s = build_save(b);
    lower_finish(b);
    update_finish(b);
    free(b->sync ? b->sync->buckets.at : NULL);
    graph_free(&g);
    return s;
}

/* The list that evaluates one micro-batch, or gives the logits of one sequence. */
static weft_status build_forward(plan *p, edit_state *e, flat *f, builder *b, uint32_t sharing,
                                 list *l)
{
    graph g = {0};
    weft_tensor result;
    bool logits = p->spec->want == SPEC_FORWARD;
    double batch = (double)p->spec->microbatch * sharing;
    b->g = &g;
    weft_status s = forward_graph(&g, e, p->spec, sharing, logits ? 2 : 1, batch, &result);
    if (!s && !logits)
        s = sum_loss(&g, result);
    uint32_t end = g.nodes.n;
    if (!s)
        s = graph_propagate(&g, 0, &end);
    if (!s && logits) {
        flat_list(&g, &e->stages, &p->pool, f);
        s = flat_place(f, 0);
        if (!s)
            s = set_regions(b, e, 1);
        b->keep = result;
    }
    if (!s)
        s = lower_prepare(b);
    if (!s && !logits)
        s = clear_loss(b, l);
    if (!s)
        s = build_passes(b, l, false, 1);
    if (!s && !logits)
        s = sync_scalar(b, l, "loss", loss_axes(b));
    if (!s && logits)
        s = build_save(b);
    lower_finish(b);
    graph_free(&g);
    return s;
}

static void finish(plan *p, const builder *b, const flat *f)
{
    uint64_t at = (b->zone + b->activations.top + 4095) & ~(uint64_t)4095, most = 0;
    for (uint32_t i = 0; i < p->kernels.n; i++)
        most = p->kernels.at[i].workspace > most ? p->kernels.at[i].workspace : most;
    p->workspace = at;
    at = (at + most + 4095) & ~(uint64_t)4095;
    p->bytes.activations += at - b->zone;
    for (uint32_t i = 0; i < p->collectives.n; i++) {
        const channel *ch = &p->channels.at[p->collectives.at[i].channel];
        p->collectives.at[i].scratch += where_staged(p->spec, &p->spec->links[ch->link]) ? 0 : at;
    }
    p->bytes.host = (b->host.top + 4095) & ~(uint64_t)4095;
    p->bytes.comm = (b->comm.top + 4095) & ~(uint64_t)4095;
    p->bytes.peak = at + p->bytes.comm;
    compress_finish(p, b);
    for (uint32_t i = 0; i < f->params.n; i++)
        if (!f->params.at[i].guest)
            p->param_elements += shape_elements(&f->params.at[i].whole);
}

/* The plan of the ranks of one stage; *axis is the mesh axis of the stages. */
static weft_status build_one(const spec *s, uint32_t stage, plan *out, int32_t *axis)
{
    *out = (plan){.spec = s, .step.name = "step", .eval.name = "eval", .save.name = "save"};
    out->stage = stage;
    edit_state e = {.s = s, .pool = &out->pool, .stages = {.axis = -1, .mine = stage}};
    flat f = {0};
    builder b = {.p = out, .f = &f, .stages = &e.stages, .groups = &e.groups};
    uint32_t sharing = 1;
    bool train = s->want == SPEC_TRAIN;
    weft_status st = train ? find_sharing(out, &e, &sharing) : WEFT_OK;
    uint64_t per_pass = s->microbatch * sharing;
    if (!st && train && (s->batch % per_pass || !s->batch))
        st = resolve_refuse(s, COMBINE_BATCH, "train.batch",
                            (combine_fact[]){{"train.batch", (long long)s->batch, NULL},
                                             {"train.microbatch", (long long)s->microbatch, NULL},
                                             {"sharing", sharing, NULL},
                                             {0}});
    e.passes = train ? s->batch / per_pass : 1;
    scalar_offset(&b, "scale", s->loss_scale);
    scalar_offset(&b, "loss", 0);
    if (!st && train)
        st = build_step(out, &e, &f, &b, sharing);
    if (!st)
        st = build_forward(out, &e, &f, &b, sharing, &out->eval);
    if (!st && out->scalars.n > MAX_SCALARS)
        st = fail(WEFT_UNSUPPORTED, "the job has more than %u scalars", MAX_SCALARS);
    out->changes = e.changes;
    out->sharing = sharing;
    out->passes = (uint32_t)e.passes;
    if (!st)
        finish(out, &b, &f);
    free(b.activations.holes.at);
    free(b.comm.holes.at);
    free(b.host.holes.at);
    free(f.params.at);
    free(f.blocks.at);
    free(f.groups.at);
    free(f.states.at);
    free(b.gathers.at);
    free(e.syncs.at);
    free(e.stores.at);
    free(e.groups.at);
    free(e.lists.at);
    *axis = e.stages.axis;
    return st;
}

/* The same channels in the same order in all plans, so that ranks of all stages open them alike. */
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

const plan *plan_of(const plan_set *p, uint32_t rank)
{
    return &p->at[p->stage_axis < 0 ? 0
                                    : mesh_coord(&p->spec->mesh, rank, (uint32_t)p->stage_axis)];
}

weft_status plan_build(const spec *s, plan_set *out)
{
    *out = (plan_set){.spec = s, .stage_axis = -1};
    out->at = mem_alloc((s->ranks ? s->ranks : 1) * sizeof *out->at);
    uint32_t stages = 1;
    for (uint32_t i = 0; i < stages; i++) {
        weft_status st = build_one(s, i, &out->at[out->n++], &out->stage_axis);
        if (st)
            return st;
        stages = out->stage_axis < 0 ? 1 : s->mesh.size[out->stage_axis];
    }
    unite_channels(out);
    sum_up(out);
    return WEFT_OK;
}

static void list_free(list *l)
{
    free(l->entries.at);
}

static void free_one(plan *p)
{
    list_free(&p->step);
    list_free(&p->eval);
    list_free(&p->save);
    for (uint32_t i = 0; i < p->extra.n; i++)
        list_free(&p->extra.at[i].l);
    free(p->extra.at);
    free(p->kernels.at);
    free(p->instrs.at);
    free(p->refs.at);
    free(p->segments.at);
    free(p->bases.at);
    free(p->channels.at);
    free(p->collectives.at);
    free(p->pieces.at);
    free(p->inputs.at);
    free(p->scalars.at);
    free(p->shifts.at);
    free(p->cells.at);
    pool_free(&p->pool);
}

void plan_free(plan_set *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        free_one(&p->at[i]);
    free(p->at);
    *p = (plan_set){0};
}
