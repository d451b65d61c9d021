/* plugins/optim/zero1: optimizer state in slices (ZeRO stage 1; Rajbhandari et al., 2020). A whole
 * placement on one page: read this one first.
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

static weft_status zero1_edit(void *module, const weft_conf *conf, const weft_view *view,
                              const weft_edits *edits, const char *const *mesh_axes, uint32_t unit)
{
    (void)unit; /* the host knows whether the rule may be cut */
    const char *axis;
    weft_status st = find_axis(module, conf, view, mesh_axes, &axis);
    return st ? st : edits->shard(edits->ctx, WEFT_SHARD_STATE, "*", axis, 0);
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

static weft_status zero1_open(const weft_host *host, void **module)
{
    *module = (void *)host; /* nothing is kept between calls */
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "weft.zero1",       .version = "0.1.0", .license = "",
    .build = __VERSION__, .components = components, .open = zero1_open};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
