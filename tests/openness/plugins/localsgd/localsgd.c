/* localsgd: ranks that share the data and talk seldom (local SGD, Stich, 2019), as a third party
 * would write it.
 *
 * Every coordinate of the mesh axis "workers" trains on its own part of the batch for `inner` steps
 * with nobody's gradient but its own; then a list of its own averages the parameters. So a step
 * sends 1 / inner of what data parallelism does, and the result depends on the number of workers,
 * which it says. */
#include <weft/coll.h>
#include <weft/strategy.h>

#define AXIS "workers"

static const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_BATCH, AXIS, AXIS,
                                    "ranks that train on their own"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};
static const weft_option inner = {.struct_size = sizeof inner,
                                  .type = WEFT_OPT_INT,
                                  .key = "inner",
                                  .dflt = "4",
                                  .help = "steps between two averages",
                                  .min = 1,
                                  .max = 1000000};
static const weft_option *const options[] = {&inner, NULL};

/* p = (sum of all coordinates' p) / n, for each parameter. */
static weft_status average(void *user, const weft_builder *b)
{
    const weft_view *view = user;
    weft_tensor share = 0;
    weft_status s = b->constant(b->ctx, 1.0 / view->mesh(view->ctx, AXIS), 0, &share);
    const uint32_t n = view->tensors(view->ctx);
    for (weft_tensor t = 1; s == WEFT_OK && t <= n; t++) {
        weft_tensor sum = 0, mean = 0;
        if (b->kind(b->ctx, t) != WEFT_T_PARAM)
            continue;
        s = b->comm(b->ctx,
                    &(weft_comm_args){sizeof(weft_comm_args), 0, WEFT_ALL_REDUCE, WEFT_SUM, AXIS,
                                      NULL, 0, 0},
                    t, &sum);
        const weft_tensor in[] = {sum, share};
        if (s == WEFT_OK)
            s = b->op(b->ctx, "mul", NULL, 0, in, 2, 0, &mean, 1);
        if (s == WEFT_OK)
            s = b->assign(b->ctx, t, mean, 0);
    }
    return s;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module;
    if (view->mesh(view->ctx, AXIS) < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return edits->split(edits->ctx, "@input", "tokens", AXIS, 0);
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    const uint32_t every = (uint32_t)conf->integer(conf->ctx, "inner");
    weft_status s = edits->sync(edits->ctx, "*", AXIS, WEFT_SYNC_NEVER, 0, 0);
    if (s == WEFT_OK)
        s = edits->periodic_list(edits->ctx, "acme.average", every, 0, average,
                                 (void *)(uintptr_t)view);
    if (s == WEFT_OK)
        s = edits->changes_results(edits->ctx, "workers average their parameters every few steps",
                                   0);
    return s;
}

static const weft_strategy table = {.struct_size = sizeof table, .axes = axes, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "acme.localsgd",
                                         .help = "local SGD: parameters are averaged every few "
                                                 "steps",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.localsgd", "1", "", components, weft_open_host, NULL);
