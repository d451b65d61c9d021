/* plugins/parallel/dp: data parallelism, a whole strategy on one page. Read this one first.
 *
 * Every coordinate of the mesh axis "dp" holds the whole model and works on its own part of the
 * micro-batch. So a strategy needs to say two things:
 *
 *   1. The tensors that the data fills are split along their axis "tokens". All activations follow,
 *      since an op passes a split on to its outputs by axis names. Parameters have no such axis and
 *      stay whole; their gradients, which add up over tokens, thereby become partial sums.
 *   2. Those partial sums are completed by an all-reduce after the last micro-batch of a step, in
 *      buckets: a bucket starts once its gradients are final, while the backward pass of earlier
 *      blocks still computes.
 *
 * A step sends 2 (N - 1) / N times the gradients' bytes a rank, whatever the batch. It loses when
 * the batch a rank is small against the parameters, or when model and optimizer state, which each
 * rank holds in full, do not fit. */
#include <weft/strategy.h>

#define AXIS "dp"

static const weft_mesh_axis axis = {sizeof axis, 0, AXIS, AXIS,
                                    "ranks that share the batch, each with the whole model"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};

static const weft_option bucket_mb = {
    .struct_size = sizeof bucket_mb,
    .type = WEFT_OPT_INT,
    .key = "bucket_mb",
    .dflt = "25",
    .help = "MiB of gradients that are summed at once; less starts earlier, more wastes less",
    .min = 1,
    .max = 4096};
static const weft_option *const options[] = {&bucket_mb, NULL};

static weft_status dp_edit(void *module, const weft_conf *conf, uint32_t phase,
                           const weft_view *view, const weft_edits *edits)
{
    (void)module;
    if (view->mesh(view->ctx, AXIS) < 2) /* alone there is nothing to share */
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return edits->split(edits->ctx, "tokens|targets|positions", "tokens", AXIS);
    if (phase == WEFT_PHASE_SYNC) {
        uint64_t bytes = (uint64_t)conf->integer(conf->ctx, "bucket_mb") << 20;
        return edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_LAST, bytes);
    }
    return WEFT_OK; /* nothing to say about stages or memory */
}

static const weft_strategy table = {sizeof table, 0, axes, dp_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "dp",
                                         .help = "data parallelism: every rank has the whole "
                                                 "model and a part of the batch",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

/* A strategy keeps nothing between calls, so a job needs no object of its own: the module is the
 * host's table, and there is nothing to close. */
static weft_status dp_open(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "weft.dp",          .version = "0.1.0", .license = "",
    .build = __VERSION__, .components = components, .open = dp_open};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
