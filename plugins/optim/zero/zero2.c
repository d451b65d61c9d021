/* plugins/optim/zero/zero2.c: optimizer state and gradients in slices (ZeRO stage 2; Rajbhandari et
 * al., 2020). See zero1.c for the idea.
 *
 * A rank that updates a slice needs the sum of that slice's gradients and of no others. So after
 * each pass the gradients of a block are reduce-scattered, while the pass goes on with the block
 * before it, and the slice is added to that of the passes before; whole gradients live as long as
 * their block's backward pass. N ranks keep 2 + 14 / N bytes a parameter with Adam in 16 bits, and
 * 2 + 16 / N where gradients are summed in fp32 ([train] accumulate).
 *
 * The price is communication a pass: with m passes a step sends m + 1 times (N - 1) / N of the
 * parameters, where zero1 sends 2. It loses against zero1 where m is large and memory is not
 * short. */
#include "slice_axis.h"

static const weft_option *const options[] = {&zero_slice_axis, NULL};

static weft_status zero2_edit(void *module, const weft_conf *conf, const weft_view *view,
                              const weft_edits *edits, const char *const *mesh_axes, uint32_t unit)
{
    (void)unit; /* the host knows whether the rule may be cut */
    const char *axis;
    weft_status st = zero_find_axis(module, conf, view, mesh_axes, &axis);
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0);
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_GRADS, "*", axis, 0);
    if (st == WEFT_OK) /* 0: groups of the size that [train] bucket_mb says */
        st = edits->sync(edits->ctx, "*", axis, WEFT_SYNC_EVERY, 0);
    return st;
}

static const weft_placement table = {sizeof table, 0, zero2_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "zero2",
                                         .help = "as zero1, and a slice of the gradients",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.zero2", "0.1.0", "", components, weft_open_host, NULL);
