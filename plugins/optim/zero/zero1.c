/* plugins/optim/zero/zero1.c: sharded optimizer state (ZeRO stage 1; Rajbhandari et al., 2020). A
 * complete placement on one page: read this one first.
 *
 * Data-parallel ranks have the same parameters, gradients and state, and all would do the same
 * update. Here each of N ranks keeps a shard of the state, updates that shard of the parameters,
 * and the updated shards are all-gathered. The placement only says what is sharded, over which mesh
 * axis; the core derives that gradient sums become reduce-scatters, what each rank updates, and
 * what is gathered.
 *
 * With Adam in 16 bits, 12 of the 16 bytes per parameter are state (of 18 with fp32 gradients): N
 * ranks keep 4 + 12 / N each. A step sends as many bytes as without ZeRO, since reduce-scatter and
 * all-gather are the two halves of an all-reduce; but the all-gathers overlap only with the
 * updates, not with the backward pass. It loses with few large parameters, a slow network, or short
 * steps.
 *
 * Where several mesh axes are data-parallel, slice_axis selects the axis to shard over. If that
 * axis is inside each machine, reduce-scatter and all-gather stay off the network, and the sums of
 * shards over the other axis send 1 / N of the gradients (hybrid sharding). */
#include "slice_axis.h"

static const weft_option *const options[] = {&zero_slice_axis, NULL};

static weft_status zero1_edit(void *module, const weft_conf *conf, const weft_placement_args *args)
{
    const weft_edits *edits = args->edits; /* the host knows whether the rule allows sharding */
    const char *axis;
    weft_status st = zero_find_axis(module, conf, args, &axis);
    return st != WEFT_OK ? st : edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0, 0);
}

static const weft_placement table = {sizeof table, 0, zero1_edit};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.placement/1",
    .name = "zero1",
    .help = "each data-parallel rank stores a shard of the optimizer's state",
    .options = options,
    .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.zero1", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
