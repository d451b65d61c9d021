/* plugins/optim/zero3: parameters, gradients and optimizer state in slices (ZeRO stage 3;
 * Rajbhandari et al., 2020). See plugins/optim/zero1 for the idea, zero2 for the gradients.
 *
 * Parameters too are kept in slices. Before a block is worked on, forward or backward, they are
 * gathered, `prefetch` blocks ahead so that the gather runs beside computation, and given back
 * after it. N ranks keep 16 / N bytes a parameter with Adam in 16 bits, and whole parameters of
 * 1 + prefetch blocks for a while.
 *
 * With m passes a step sends 3 m times (N - 1) / N of the parameters, where zero2 sends m + 1 (a
 * little less: what forward ends with and backward begins with stays). It loses against zero2
 * wherever the parameters fit: each pass waits for the network at least as long as its gathers
 * take. */
#include <weft/optim.h>

#include <stdio.h>
#include <string.h>

static const weft_option prefetch = {.struct_size = sizeof prefetch,
                                     .type = WEFT_OPT_INT,
                                     .key = "prefetch",
                                     .dflt = "1",
                                     .help = "blocks that parameters are gathered ahead of use",
                                     .min = 0,
                                     .max = 1024};
static const weft_option slice_axis = {.struct_size = sizeof slice_axis,
                                       .type = WEFT_OPT_STRING,
                                       .key = "slice_axis",
                                       .dflt = "auto",
                                       .help = "mesh axis over whose ranks the slices lie, one "
                                               "that shares the data; auto: that with most ranks"};
static const weft_option *const options[] = {&prefetch, &slice_axis, NULL};

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

static weft_status zero3_edit(void *module, const weft_conf *conf, const weft_view *view,
                              const weft_edits *edits, const char *const *mesh_axes, uint32_t unit)
{
    (void)unit; /* the host knows whether the rule may be cut */
    uint32_t ahead = (uint32_t)conf->integer(conf->ctx, "prefetch");
    const char *axis;
    weft_status st = find_axis(module, conf, view, mesh_axes, &axis);
    if (!st)
        st = edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0);
    if (!st)
        st = edits->shard(edits->ctx, WEFT_SHARD_GRADS, "*", axis, 0);
    if (!st) /* 0: groups of the size that [train] bucket_mb says */
        st = edits->sync(edits->ctx, "*", axis, WEFT_SYNC_EVERY, 0);
    if (!st)
        st = edits->shard(edits->ctx, WEFT_SHARD_PARAMS, "*", axis, ahead);
    return st;
}

static const weft_placement table = {sizeof table, 0, zero3_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "zero3",
                                         .help = "as zero2, and a slice of the parameters",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

static weft_status zero3_open(const weft_host *host, void **module)
{
    *module = (void *)host; /* nothing is kept between calls */
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "weft.zero3",       .version = "0.1.0", .license = "",
    .build = __VERSION__, .components = components, .open = zero3_open};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
