/* plugins/parallel/dp: data parallelism, a complete strategy on one page. Read this one first.
 *
 * Every coordinate of the mesh axis "dp" holds the whole model and computes its own part of the
 * micro-batch. The strategy emits two edits:
 *
 *   1. The inputs, which are the data, are split along their axis "tokens". The split propagates to
 *      all activations, because ops match axes by name. Parameters have no such axis and stay
 *      whole; their gradients, sums over tokens, become partial sums.
 *   2. Those partial sums are completed by an all-reduce after the last micro-batch of a step, in
 *      buckets: a bucket starts once its gradients are final and overlaps with the backward pass of
 *      earlier blocks.
 *
 * A step sends 2 (N - 1) / N times the gradient bytes per rank, whatever the batch. It loses when
 * the batch per rank is small compared to the parameters, or when model and optimizer state, which
 * each rank holds in full, do not fit. */
#include <weft/strategy.h>

#define AXIS "dp"

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_BATCH, AXIS, AXIS,
                                    "ranks that share the batch, each with the whole model"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};

static weft_status dp_edit(void *module, const weft_conf *conf, uint32_t phase,
                           const weft_view *view, const weft_edits *edits)
{
    (void)module, (void)conf;
    if (view->mesh(view->ctx, AXIS) < 2) /* a single coordinate: nothing to split */
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
    if (phase == WEFT_PHASE_SYNC) /* 0: the bucket size of [train] bucket_mb */
        return edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_LAST, 0, 0);
    return WEFT_OK; /* no edits for stages or memory */
}

static const weft_strategy table = {.struct_size = sizeof table, .axes = axes, .edit = dp_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "dp",
                                         .help = "data parallelism: every rank has the whole "
                                                 "model and a part of the batch",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.dp", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
