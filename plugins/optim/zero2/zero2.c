/* plugins/optim/zero2: optimizer state and gradients in slices (ZeRO stage 2; Rajbhandari et al.,
 * 2020). See plugins/optim/zero1 for the idea.
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
#include <weft/optim.h>

#include <stdio.h>
#include <string.h>

static const weft_option slice_axis = {.struct_size = sizeof slice_axis,
                                       .type = WEFT_OPT_STRING,
                                       .key = "slice_axis",
                                       .dflt = "auto",
                                       .help = "mesh axis over whose ranks the slices lie, one "
                                               "that shares the data; auto: that with most ranks"};
static const weft_option *const options[] = {&slice_axis, NULL};

/* Slices lie over one axis: the one that is named or, of those that share the data, that with the
 * most ranks. Over the others every rank has the same slices. */
static weft_status find_axis(const weft_host *host, const weft_conf *conf, const weft_view *view,
                             const char *const *axes, const char **out)
{
    const char *name = conf->text(conf->ctx, "slice_axis");
    char all[256] = "", text[512];
    *out = NULL;
    for (uint32_t i = 0; axes[i]; i++) {
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", axes[i]);
        if (!strcmp(name, axes[i]) ||
            (!strcmp(name, "auto") &&
             (!*out || view->mesh(view->ctx, axes[i]) > view->mesh(view->ctx, *out))))
            *out = axes[i];
    }
    if (*out)
        return WEFT_OK;
    snprintf(text, sizeof text,
             "optim.slice_axis = %s: ranks along that mesh axis do not share the data of this job; "
             "name one along which they do (%s), or say auto",
             name, all);
    return host->fail(host->ctx, WEFT_USAGE, text);
}

static weft_status zero2_edit(void *module, const weft_conf *conf, const weft_view *view,
                              const weft_edits *edits, const char *const *mesh_axes, uint32_t unit)
{
    (void)unit; /* the host knows whether the rule may be cut */
    const char *axis;
    weft_status st = find_axis(module, conf, view, mesh_axes, &axis);
    if (!st)
        st = edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0);
    if (!st)
        st = edits->shard(edits->ctx, WEFT_SHARD_GRADS, "*", axis, 0);
    if (!st) /* 0: groups of the size that [train] bucket_mb says */
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

static weft_status zero2_open(const weft_host *host, void **module)
{
    *module = (void *)host; /* nothing is kept between calls */
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "weft.zero2",       .version = "0.1.0", .license = "",
    .build = __VERSION__, .components = components, .open = zero2_open};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
