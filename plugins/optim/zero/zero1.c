/* plugins/optim/zero/zero1.c: optimizer state in slices (ZeRO stage 1; Rajbhandari et al., 2020). A
 * whole placement on one page: read this one first.
 *
 * Ranks that share the data have the same parameters, gradients and state, and all would do the
 * same update. Here each of N keeps a slice of the state, updates that slice of the parameters, and
 * the slices are gathered. So a placement needs to say one thing: what is stored in slices, over
 * which mesh axis. That the sum of a gradient ends as a reduce-scatter, what each rank updates and
 * what has to be gathered then follow.
 *
 * With Adam in 16 bits, 12 of the 16 bytes a parameter are state (with fp32 gradients, of 18): N
 * ranks keep 4 + 12 / N. A step sends what it did before, for a reduce-scatter and an all-gather
 * are the two halves of an all-reduce; but the gathers cannot run beside the backward pass, only
 * beside the updates. It loses where that shows: few large parameters, a slow network, short
 * steps.
 *
 * Where several mesh axes share the data, slice_axis says over which the slices lie: over an axis
 * inside each machine the reduce-scatter and the gathers do not cross the network, and the sums of
 * slices over the other axis send 1 / N of the gradients (hybrid sharding). */
#include "slice_axis.h"

static const weft_option *const options[] = {&zero_slice_axis, NULL};

static weft_status zero1_edit(void *module, const weft_conf *conf, const weft_view *view,
                              const weft_edits *edits, const char *const *mesh_axes, uint32_t unit)
{
    (void)unit; /* the host knows whether the rule may be cut */
    const char *axis;
    weft_status st = zero_find_axis(module, conf, view, mesh_axes, &axis);
    return st != WEFT_OK ? st : edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0);
}

static const weft_placement table = {sizeof table, 0, zero1_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "zero1",
                                         .help = "each data-parallel rank keeps a slice of the "
                                                 "optimizer's state",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.zero1", "0.1.0", "", components, weft_open_host, NULL);
