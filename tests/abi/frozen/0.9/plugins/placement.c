/* placement.c: a placement. Each rank of the widest axis that shares the data keeps a shard of the
 * optimizer's state, and updates that shard of the parameters. */
#include <weft/optim.h>

static weft_status edit(void *module, const weft_conf *conf, const weft_placement_args *args)
{
    const weft_view *view = args->view;
    const weft_edits *edits = args->edits;
    const char *widest = NULL;
    const weft_status st = weft_check_args((const weft_host *)module, args, sizeof *args, 0);
    (void)conf;
    if (st != WEFT_OK)
        return st;
    for (const char *const *axis = args->mesh_axes; *axis; axis++)
        if (!widest || view->mesh(view->ctx, *axis) > view->mesh(view->ctx, widest))
            widest = *axis;
    return widest ? edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", widest, 0, 0) : WEFT_OK;
}

static const weft_placement table = {sizeof table, 0, edit};
static const weft_component shards = {
    sizeof shards,
    0,
    "weft.placement/1",
    "acme.shards",
    "shards the optimizer's state over the widest axis that shares the data",
    NULL,
    &table,
    NULL};
static const weft_component *const components[] = {&shards, NULL};
WEFT_PLUGIN("org.acme.shards", "1", "", components, weft_open_host, NULL);
