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
 * steps. */
#include <weft/optim.h>

/* Over one axis, the one with the most ranks; over further ones every rank has the same slices. */
static const char *widest(const weft_view *view, const char *const *axes)
{
    const char *best = axes[0];
    for (; *axes; axes++)
        if (view->mesh(view->ctx, *axes) > view->mesh(view->ctx, best))
            best = *axes;
    return best;
}

static weft_status zero1_edit(void *module, const weft_conf *conf, const weft_view *view,
                              const weft_edits *edits, const char *const *mesh_axes, uint32_t unit)
{
    (void)module, (void)conf, (void)unit; /* the host knows whether the rule may be cut */
    return edits->store(edits->ctx, WEFT_STORE_STATE, "*", widest(view, mesh_axes), 0);
}

static const weft_placement table = {sizeof table, 0, zero1_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "zero1",
                                         .help = "each data-parallel rank keeps a slice of the "
                                                 "optimizer's state",
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
