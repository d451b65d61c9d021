/* plugins/optim/zero/zero3.c: sharded parameters, gradients and optimizer state (ZeRO stage 3;
 * Rajbhandari et al., 2020). zero1.c has the basics, zero2.c the gradients.
 *
 * Parameters are sharded too. Those of a block are all-gathered before its forward or backward
 * pass, `prefetch` blocks ahead to overlap with computation, and freed after it. N ranks keep 16 /
 * N bytes per parameter with Adam in 16 bits, plus the whole parameters of 1 + prefetch blocks
 * while they are gathered.
 *
 * With m passes a step sends 3 m times (N - 1) / N of the parameters; zero2 sends m + 1 times (3 m
 * is slightly less in practice: the blocks that end the forward pass and begin the backward pass
 * stay gathered). It loses to zero2 wherever the parameters fit: each pass takes at least as long
 * as its all-gathers. */
#include "slice_axis.h"

static const weft_option prefetch = {.struct_size = sizeof prefetch,
                                     .type = WEFT_OPT_INT,
                                     .key = "prefetch",
                                     .dflt = "1",
                                     .help = "blocks that parameters are gathered ahead of use",
                                     .min = 0,
                                     .max = 1024};
static const weft_option *const options[] = {&prefetch, &zero_slice_axis, NULL};

static weft_status zero3_edit(void *module, const weft_conf *conf, const weft_placement_args *args)
{
    const weft_edits *edits = args->edits; /* the host knows whether the rule allows sharding */
    uint32_t ahead = (uint32_t)conf->integer(conf->ctx, "prefetch");
    const char *axis;
    weft_status st = zero_find_axis(module, conf, args, &axis);
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0, 0);
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_GRADS, "*", axis, 0, 0);
    if (st == WEFT_OK) /* 0: the bucket size of [train] bucket_mb */
        st = edits->sync(edits->ctx, "*", axis, WEFT_SYNC_EVERY, 0, 0);
    if (st == WEFT_OK)
        st = edits->shard(edits->ctx, WEFT_SHARD_PARAMS, "*", axis, ahead, 0);
    return st;
}

static const weft_placement table = {sizeof table, 0, zero3_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "zero3",
                                         .help = "as zero2, and a shard of the parameters",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.zero3", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
