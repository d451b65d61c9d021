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

weft_status plan_graph_build(plan_builder *b, graph *g, const plan_graph_sizes *size, uint32_t want,
                             weft_tensor *result)
{
    spec s = *b->p->spec;
    s.sequence = size->rows;
    graph_init(g, &b->p->spec->mesh, graph_ops_of(s.host), s.compute, s.grad_dtype);
    weft_status st = plan_model_build(g, &s, size->dp_size, size->average, want, &b->built, result);
    if (st != WEFT_OK)
        return st;
    b->edits->g = g;
    return plan_edits_run(b->edits, WEFT_PHASE_SPLIT);
}

/* The graph of a micro-batch, placed from its first node on. */
static weft_status forward_graph(plan_builder *b, graph *g, uint32_t dp_size, uint32_t want,
                                 double batch, weft_tensor *result)
{
    return plan_graph_build(b, g, &(plan_graph_sizes){dp_size, b->p->spec->sequence, batch}, want,
                            result);
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
    graph probe;
    weft_tensor loss;
    weft_status st = forward_graph(b, &probe, b->p->spec->ranks, WEFT_MODEL_TRAIN, 1, &loss);
    if (st == WEFT_OK)
        *batch |= split_axes(&probe) & b->p->spec->undeclared_axes;
    graph_free(&probe);
    b->edits->g = NULL;
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

/* Add the loss of a micro-batch to the scalar that sums over the step. */
static weft_status sum_loss(graph *g, weft_tensor loss)
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
    return WEFT_OK;
}

weft_status plan_pass_forward(plan_builder *b)
{
    weft_status st = forward_graph(b, b->g, b->p->dp_size, WEFT_MODEL_TRAIN,
                                   (double)b->p->spec->batch, &b->result);
    if (st == WEFT_OK)
        st = sum_loss(b->g, b->result);
    return st == WEFT_OK ? graph_propagate(b->g, 0) : st;
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
    const double batch = (double)b->p->spec->micro_batch * b->p->dp_size;
    graph_free(b->g);
    weft_status st = forward_graph(b, b->g, b->p->dp_size, WEFT_MODEL_EVAL, batch, &b->result);
    if (st == WEFT_OK)
        st = plan_pass_check_axes(b);
    if (st == WEFT_OK)
        st = sum_loss(b->g, b->result);
    if (st == WEFT_OK)
        st = graph_propagate(b->g, 0);
    if (st == WEFT_OK && b->p->spec->want == SPEC_EVAL)
        note_loss_axes(b);
    return st;
}

weft_status plan_pass_logits(plan_builder *b)
{
    const double batch = (double)b->p->spec->micro_batch * b->p->dp_size;
    weft_status st = forward_graph(b, b->g, b->p->dp_size, WEFT_MODEL_LOGITS, batch, &b->result);
    b->live.result = b->result;
    return st == WEFT_OK ? graph_propagate(b->g, 0) : st;
}
