/* plugins/optim/zero/zero2.c: sharded optimizer state and gradients (ZeRO stage 2; Rajbhandari et
 * al., 2020). zero1.c has the basics.
 *
 * A rank needs summed gradients only for the shard that it updates. So in each pass the gradients
 * of a block are reduce-scattered while the backward pass continues with the block before it, and
 * the shard is accumulated over passes; whole gradients live only during their block's backward
 * pass. N ranks keep 2 + 14 / N bytes per parameter with Adam in 16 bits, and 2 + 16 / N where
 * gradients are summed in fp32 ([train] accumulate).
 *
 * The price is communication in every micro-batch: with m of them a step sends m + 1 times
 * (N - 1) / N of the parameters; zero1 sends 2 times. It loses to zero1 where m is
 * large and memory suffices. */
#include "slice_axis.h"

static const weft_option *const options[] = {&zero_slice_axis, NULL};

static weft_status zero2_edit(void *module, const weft_conf *conf, const weft_placement_args *args)
{
    const weft_edits *edits = args->edits; /* the host knows whether the rule allows sharding */
    const char *axis;
    weft_status st = zero_find_axis(module, conf, args, &axis);
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0, 0);
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_GRADS, "*", axis, 0, 0);
    if (st == WEFT_OK) /* 0: the bucket size of [train] bucket_mb */
        st = edits->sync(edits->ctx, "*", axis, WEFT_SYNC_EVERY, 0, 0);
    return st;
}

static const weft_placement table = {sizeof table, 0, zero2_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "zero2",
                                         .help = "as zero1, and a shard of the gradients",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.zero2", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
