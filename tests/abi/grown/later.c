/* later.c: a plugin of a later minor, built with headers that grow.py has made: a strategy and a
 * rule, each of which uses what is new where the host has it. With ASKS it asks for something new
 * without a test, as a plugin must not. The samples of docs/VERSIONS.md are from here. */
#include <weft/expr.h>
#include <weft/optim.h>
#include <weft/strategy.h>

#include <stdio.h>

enum { NOTHING, TABLE, OPTION, COMPONENT, ARGUMENTS, FLAGS };

/* --- a strategy: data parallelism --- */

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module, (void)conf;
    if (view->mesh(view->ctx, "crew") < 2)
        return WEFT_OK;
    if (phase == WEFT_PHASE_SPLIT)
        return edits->split(edits->ctx, "@input", "tokens", "crew", 0);
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    if (WEFT_HAS(edits, later)) /* a host of this minor or a later one */
        return edits->later(edits->ctx, phase);
    return edits->sync(edits->ctx, "*", "crew", WEFT_SYNC_LAST, 0, 0);
}

static const weft_mesh_axis axis = {.struct_size = sizeof axis,
                                    .flags = WEFT_AXIS_BATCH,
                                    .name = "crew",
                                    .size_key = "crew",
                                    .help = "ranks of the batch"};
static const weft_mesh_axis *const axes[] = {&axis, NULL};
static const weft_strategy strategy = {.struct_size = sizeof strategy, .axes = axes, .edit = edit};

/* --- a rule, in two versions of its interface --- */

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    const weft_state_args args = {.struct_size = sizeof args,
                                  .flags = ASKS == FLAGS ? WEFT_LATER_FLAG : 0,
                                  .name = "m",
                                  .like = u->param,
                                  .later = ASKS == ARGUMENTS};
    const double keep = conf->real(conf->ctx, "momentum");
    const weft_tensor m = weft_state_of(&f, &args);
    const weft_tensor next = weft_op2(&f, "add", weft_scale(&f, m, keep), u->grad);
    weft_assign(&f, m, next);
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", next, u->lr)));
    return f.st;
}

static weft_status later(void *ctx, uint32_t what)
{
    (void)ctx, (void)what;
    return WEFT_OK;
}

static const weft_option momentum = {.struct_size = sizeof momentum,
                                     .type = WEFT_OPT_REAL,
                                     .key = "momentum",
                                     .dflt = "0.9",
                                     .help = "share of the last direction that is kept",
                                     .max = 1,
                                     .later = ASKS == OPTION};
static const weft_option *const options[] = {&momentum, NULL};
static const weft_rule rule = {.struct_size = sizeof rule,
                               .unit = WEFT_UNIT_ELEMENT,
                               .update = update,
                               .later = ASKS == TABLE ? later : NULL};

/* What "weft.rule/2" may look like: the host that knows it reads it, any other one leaves it alone.
 */
static const struct {
    uint32_t struct_size, unit, passes, reserved;
    weft_status (*update)(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u);
} rule_2 = {sizeof rule_2, WEFT_UNIT_ELEMENT, 1, 0, update};

static const weft_component new_rule = {.struct_size = sizeof new_rule,
                                        .iface = "weft.rule/2",
                                        .name = "acme.later",
                                        .help = "momentum",
                                        .options = options,
                                        .table = &rule_2};
static const weft_component old_rule = {.struct_size = sizeof old_rule,
                                        .iface = "weft.rule/1",
                                        .name = "acme.later",
                                        .help = "momentum",
                                        .options = options,
                                        .table = &rule,
                                        .later = ASKS == COMPONENT};
static const weft_component crew = {.struct_size = sizeof crew,
                                    .iface = "weft.strategy/1",
                                    .name = "acme.later",
                                    .help = "splits the batch",
                                    .table = &strategy};
static const weft_component *const components[] = {&new_rule, &old_rule, &crew, NULL};

/* open() of a plugin that counts on a later host only where there is one. */
static weft_status later_open(const weft_host *host, void **module)
{
    char text[80];
    if (host->abi_minor < WEFT_ABI_MINOR) {
        snprintf(text, sizeof text, "acme.later: a host of 0.%u; it does without what 0.%u added",
                 host->abi_minor, WEFT_ABI_MINOR);
        host->log(host->ctx, WEFT_LOG_DEBUG, text);
    }
    return weft_open_host(host, module);
}

WEFT_PLUGIN("org.acme.later", "1", "", components, later_open, NULL);
