/* outside/crew.cc: a strategy from outside, in C++. Data parallelism over a mesh axis of its own,
 * `crew`: every input is split along its tokens, every gradient is summed once. */
#include <weft/strategy.h>

#include <cstring>

namespace
{

const char axis_name[] = "crew";
constexpr uint64_t bucket = 256 << 10;

weft_status split_inputs(const weft_view *view, const weft_edits *edits)
{
    for (weft_tensor t = 1; t <= view->tensors(view->ctx); t++) {
        weft_tensor_info info = {};
        info.struct_size = sizeof info;
        weft_status st = view->tensor(view->ctx, t, &info);
        if (st != WEFT_OK)
            return st;
        if (info.kind != WEFT_T_INPUT || !info.shape.rank ||
            std::strcmp(info.shape.axes[0].name, "tokens") != 0)
            continue;
        st = edits->split(edits->ctx, info.name, "tokens", axis_name, 0);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

/* No exception may leave a plugin: noexcept makes one end the process with this name instead. */
weft_status edit(void *, const weft_conf *, uint32_t phase, const weft_view *view,
                 const weft_edits *edits) noexcept
{
    if (view->mesh(view->ctx, axis_name) < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return split_inputs(view, edits);
    if (phase == WEFT_PHASE_SYNC)
        return edits->sync(edits->ctx, "*", axis_name, WEFT_SYNC_LAST, bucket, 0);
    return WEFT_OK;
}

weft_status crew_open(const weft_host *, void **module)
{
    *module = nullptr;
    return WEFT_OK;
}

const weft_mesh_axis axis = {sizeof axis, WEFT_AXIS_BATCH, axis_name, "crew",
                             "ranks that share the batch"};
const weft_mesh_axis *const axes[] = {&axis, nullptr};
const weft_strategy strategy = {sizeof strategy, 0, axes, edit, nullptr};
const weft_component crew = {sizeof crew,        0,       "weft.strategy/1", "acme.crew",
                             "splits the batch", nullptr, &strategy,         nullptr};
const weft_component *const components[] = {&crew, nullptr};
const weft_manifest manifest = {WEFT_MANIFEST_HEAD, "org.acme.crew", "1",    "", "",
                                components,         crew_open,       nullptr};

} // namespace

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
