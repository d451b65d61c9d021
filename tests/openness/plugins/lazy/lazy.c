/* lazy: some parameters are updated in some steps only, by a strategy that brings no mesh axis.
 *
 *   parallel.lazy = @embed*        which
 *   parallel.every = 4             in steps 4, 8, 12, ...
 *   parallel.from = 0              not before the steps after this one: gradual unfreezing
 *   parallel.also =                others, with the last gradient
 *   parallel.mean = on             with the mean of the gradients of these steps; off: with the
 * last
 *
 * A large embedding is sent over a slow network once in `every` steps; with all parameters it is
 * gradient accumulation over steps. */
#include <weft/strategy.h>

#include <stddef.h>

static const weft_option lazy = {.struct_size = sizeof lazy,
                                 .type = WEFT_OPT_STRING,
                                 .key = "lazy",
                                 .dflt = "*",
                                 .help = "names of the parameters that are updated rarely"};
static const weft_option every = {.struct_size = sizeof every,
                                  .type = WEFT_OPT_INT,
                                  .key = "every",
                                  .dflt = "4",
                                  .help = "steps from one update of them to the next",
                                  .min = 1,
                                  .max = 1000000};
static const weft_option from = {.struct_size = sizeof from,
                                 .type = WEFT_OPT_INT,
                                 .key = "from",
                                 .dflt = "0",
                                 .help = "steps before their first round",
                                 .max = 1e15};
static const weft_option mean = {.struct_size = sizeof mean,
                                 .type = WEFT_OPT_BOOL,
                                 .key = "mean",
                                 .dflt = "on",
                                 .help = "whether gradients of the other steps count"};
static const weft_option also = {.struct_size = sizeof also,
                                 .type = WEFT_OPT_STRING,
                                 .key = "also",
                                 .dflt = "",
                                 .help = "others, for which gradients of other steps never count"};
static const weft_option *const options[] = {&lazy, &every, &from, &mean, &also, NULL};

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module, (void)view;
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    if (edits->struct_size <= offsetof(weft_edits, update_every))
        return WEFT_UNSUPPORTED;
    const uint32_t steps = (uint32_t)conf->integer(conf->ctx, "every");
    const uint64_t begin = (uint64_t)conf->integer(conf->ctx, "from");
    const char *others = conf->text(conf->ctx, "also");
    const weft_status st =
        edits->update_every(edits->ctx, conf->text(conf->ctx, "lazy"), steps, begin,
                            conf->integer(conf->ctx, "mean") ? WEFT_UPDATE_MEAN : 0);
    return st != WEFT_OK || !*others ? st
                                     : edits->update_every(edits->ctx, others, steps, begin, 0);
}

static const weft_strategy table = {.struct_size = sizeof table, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "acme.lazy",
                                         .help = "updates some parameters in some steps only",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.lazy", "1", "", components, weft_open_host, NULL);
