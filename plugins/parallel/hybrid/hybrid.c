/* plugins/parallel/hybrid: an alias for tensor, pipeline and data parallelism in one mesh.
 *
 * `strategy = hybrid` is `strategy = tp, pp, dp`. The first axis is innermost: tensor-parallel
 * ranks communicate most and stay within a machine; then pipeline stages; data-parallel ranks
 * communicate least. For another order, list the strategies yourself. */
#include <weft/strategy.h>

static weft_status never_called(void *module, const weft_conf *conf, uint32_t phase,
                                const weft_view *view, const weft_edits *edits)
{
    (void)module, (void)conf, (void)phase, (void)view, (void)edits;
    return WEFT_INTERNAL;
}

static const weft_strategy table = {sizeof table, 0, NULL, never_called, "tp, pp, dp"};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "hybrid",
                                         .help = "tensor, pipeline and data parallelism: the list "
                                                 "tp, pp, dp",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.hybrid", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
