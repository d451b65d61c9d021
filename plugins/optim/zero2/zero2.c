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

/* Over one axis, the one with the most ranks; over further ones every rank has the same slices. */
static const char *widest(const weft_view *view, const char *const *axes)
{
    const char *best = axes[0];
    for (; *axes; axes++)
        if (view->mesh(view->ctx, *axes) > view->mesh(view->ctx, best))
            best = *axes;
    return best;
}

static weft_status zero2_edit(void *module, const weft_conf *conf, const weft_view *view,
                              const weft_edits *edits, const char *const *mesh_axes, uint32_t unit)
{
    (void)module, (void)conf, (void)unit; /* the host knows whether the rule may be cut */
    const char *axis = widest(view, mesh_axes);
    weft_status st = edits->store(edits->ctx, WEFT_STORE_STATE, "*", axis, 0);
    if (!st)
        st = edits->store(edits->ctx, WEFT_STORE_GRADS, "*", axis, 0);
    if (!st) /* 0: groups of the size that [train] bucket_mb says */
        st = edits->sync(edits->ctx, "*", axis, WEFT_SYNC_EVERY, 0);
    return st;
}

static const weft_placement table = {sizeof table, 0, zero2_edit};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.placement/1",
                                         .name = "zero2",
                                         .help = "as zero1, and a slice of the gradients",
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
