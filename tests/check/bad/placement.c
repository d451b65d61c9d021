/* bad/placement.c: the state of the rule sharded over the outermost axis of the data, and its ways
 * of failing. Each name of placement.expected breaks one rule. */
#include "faults.h"

#include <weft/optim.h>

static weft_status edit(void *module, const weft_conf *conf, const weft_placement_args *args)
{
    const weft_edits *edits = args->edits;
    const char *axis = args->mesh_axes[0];
    weft_status st = weft_check_args((const weft_host *)module, args, sizeof *args, 0);
    (void)conf;
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0, 0);
    if (st == WEFT_OK && BAD == SAYS_MORE)
        st = edits->changes_results(edits->ctx, "nothing changes", 0);
    if (st == WEFT_OK && BAD == SENDS_MORE)
        st = edits->sync(edits->ctx, "*", axis, WEFT_SYNC_LAST, 1024, 0); /* a sum a parameter */
    return st;
}

static const weft_placement table = {sizeof table, 0, edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "acme.shards",
                                         .help = "shards the state",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.shards", "1", "", components, weft_open_host, NULL);
