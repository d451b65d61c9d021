/* plan/passes/graphs.c: the passes that build a model's graph and place it.
 *
 * Strategies declare which mesh axes share the batch, and so how many data-parallel ranks there
 * are; the graph that is built shows whether it is so. Where one does not say it, a first graph is
 * built with a batch that any mesh divides, and shows the axes over which its inputs are split. */
#include "plan/passes/passes.h"

#include "base/err.h"
#include "graph/inputs.h"
#include "plan/model.h"

static weft_status check_order(const spec *s, uint64_t batch, uint64_t sequence)
{
    for (uint32_t a = 0; a < s->mesh.n; a++)
        if (sequence >> a & 1 && batch & (((uint64_t)1 << a) - 1))
            return err_fail(WEFT_USAGE,
                            "%s splits sequences, but a strategy named before it distributes whole "
                            "sequences: in parallel.strategy, name that one after it",
                            s->size_key[a]);
    return WEFT_OK;
}

static uint64_t large_axes(const graph_mesh *m)
{
    uint64_t axes = 0;
    for (uint32_t a = 0; a < m->n; a++)
        axes |= (uint64_t)(m->size[a] > 1) << a;
    return axes;
}

/* Bit a: the first input is split over mesh axis a, which has more than one rank. */
static uint64_t split_axes(const graph *g)
{
    const weft_tensor t = graph_first_input(g);
    return t ? graph_axes(g, t, WEFT_SPLIT) & large_axes(g->mesh) : 0;
}

/* The axes that split the inputs, and from them the number of data-parallel ranks. */
static weft_status set_axes(plan_builder *b, uint64_t batch, uint64_t sequence)
{
    const spec *s = b->p->spec;
    b->p->data_axes = batch;
    b->p->cut_axes = sequence;
    b->p->dp_size = graph_mesh_parts(&s->mesh, batch);
    return check_order(s, batch, sequence);
}

weft_status plan_pass_check_axes(const plan_builder *b)
{
    const spec *s = b->p->spec;
    const uint64_t is = split_axes(b->g), said = b->p->data_axes | b->p->cut_axes;
    for (uint32_t a = 0; a < s->mesh.n; a++)
        if ((is ^ said) & ~s->undeclared_axes & (uint64_t)1 << a)
            return err_fail(WEFT_USAGE,
                            is >> a & 1 ? "%s: its strategy splits the inputs over the mesh axis "
                                          "%s, whose flags say that ranks have the same ones"
                                        : "%s: its strategy does not split the inputs over the "
                                          "mesh axis %s, whose flags say that ranks share them",
                            s->size_key[a], s->mesh.name[a]);
    return WEFT_OK;
}

weft_status plan_graph_build(plan_builder *b, uint32_t want, uint32_t dp_size, int64_t rows,
                             double average)
{
    spec s = *b->p->spec;
    s.sequence = rows;
    graph_init(b->g, &b->p->spec->mesh, graph_ops_of(s.host), s.compute, s.grad_dtype);
    weft_status st = plan_model_build(b->g, &s, dp_size, average, want, &b->built, &b->result);
    return st == WEFT_OK ? plan_edits_run(b->edits, WEFT_PHASE_SPLIT) : st;
}

static weft_status check_batch(const spec *s, uint32_t dp_size)
{
    const uint64_t each = s->micro_batch * dp_size;
    if (s->batch && s->batch % each == 0)
        return WEFT_OK;
    return resolve_refuse(s, CONSTRAINT_BATCH, "train.batch",
                          (config_fact[]){{"train.batch", (long long)s->batch, NULL},
                                          {"train.microbatch", (long long)s->micro_batch, NULL},
                                          {"dp_size", dp_size, NULL},
                                          {"each", (long long)each, NULL},
                                          {"next", (long long)((s->batch / each + 1) * each), NULL},
                                          {0}});
}

/* Which of the axes without a flag split the batch, as a graph shows it. */
static weft_status probe_axes(plan_builder *b, uint64_t *batch)
{
    const spec *s = b->p->spec;
    weft_status st = plan_graph_build(b, WEFT_MODEL_TRAIN, s->ranks, s->sequence, 1);
    if (st == WEFT_OK)
        *batch |= split_axes(b->g) & s->undeclared_axes;
    graph_free(b->g);
    return st;
}

weft_status plan_pass_dp_size(plan_builder *b)
{
    const spec *s = b->p->spec;
    const uint64_t large = large_axes(&s->mesh);
    uint64_t batch = s->batch_axes & large;
    weft_status st = s->undeclared_axes & large ? probe_axes(b, &batch) : WEFT_OK;
    if (st == WEFT_OK)
        st = set_axes(b, batch, s->sequence_axes & large);
    if (st != WEFT_OK || s->want == SPEC_EVAL)
        return st;
    st = check_batch(s, b->p->dp_size);
    if (st == WEFT_OK) {
        b->edits->micro_batches = s->batch / (s->micro_batch * b->p->dp_size);
        b->p->micro_batches = (uint32_t)b->edits->micro_batches;
    }
    return st;
}

/* Add the loss of a micro-batch to the scalar that sums over the step, and place the graph. */
static weft_status place_with_loss(graph *g, weft_tensor loss)
{
    weft_builder b = graph_builder(g);
    weft_tensor sum, out;
    weft_status st = b.scalar(b.ctx, "loss", 0, &sum);
    g->now.block = graph_tensor_at(g, loss)->block;
    if (st == WEFT_OK)
        st = b.op(b.ctx, "accumulate", NULL, 0, &loss, 1, 0, &out, 1);
    if (st != WEFT_OK)
        return st;
    g->nodes.at[g->nodes.n - 1].out[0] = sum;
    graph_tensor_at(g, sum)->sum = true;
    return graph_propagate(g, 0);
}

weft_status plan_pass_forward(plan_builder *b)
{
    const spec *s = b->p->spec;
    weft_status st =
        plan_graph_build(b, WEFT_MODEL_TRAIN, b->p->dp_size, s->sequence, (double)s->batch);
    return st == WEFT_OK ? place_with_loss(b->g, b->result) : st;
}

/* The mesh axes over which the loss is a partial sum. */
static void note_loss_axes(plan_builder *b)
{
    const weft_tensor sum = graph_find(b->g, "loss");
    if (sum)
        b->loss_axes |= graph_axes(b->g, sum, WEFT_PARTIAL_SUM);
}

weft_status plan_pass_backward(plan_builder *b)
{
    const uint32_t forward = b->g->nodes.n;
    weft_status st = graph_backward(b->g, b->result);
    if (st == WEFT_OK)
        st = graph_propagate(b->g, forward);
    if (st == WEFT_OK)
        note_loss_axes(b);
    return st;
}

weft_status plan_pass_eval(plan_builder *b)
{
    const spec *s = b->p->spec;
    graph_free(b->g);
    weft_status st = plan_graph_build(b, WEFT_MODEL_EVAL, b->p->dp_size, s->sequence,
                                      (double)s->micro_batch * b->p->dp_size);
    if (st == WEFT_OK)
        st = plan_pass_check_axes(b);
    if (st == WEFT_OK)
        st = place_with_loss(b->g, b->result);
    if (st == WEFT_OK && s->want == SPEC_EVAL)
        note_loss_axes(b);
    return st;
}

weft_status plan_pass_logits(plan_builder *b)
{
    const spec *s = b->p->spec;
    weft_status st = plan_graph_build(b, WEFT_MODEL_LOGITS, b->p->dp_size, s->sequence,
                                      (double)s->micro_batch * b->p->dp_size);
    b->live.result = b->result;
    return st == WEFT_OK ? graph_propagate(b->g, 0) : st;
}
