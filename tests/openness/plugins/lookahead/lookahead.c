/* lookahead: slow weights (Lookahead, Zhang et al., 2019), by a strategy that brings no mesh axis.
 *
 * The job's rule trains fast weights. After every `every` steps a list moves the slow weights a
 * share of the way to them, and the fast ones go on from there:
 *
 *   slow = slow + share * (p - slow)
 *   p = slow
 *
 * The slow weights are a state that begins as its parameter, so the first round is like all. */
#include <weft/expr.h>
#include <weft/strategy.h>

static const weft_option every = {.struct_size = sizeof every,
                                  .type = WEFT_OPT_INT,
                                  .key = "every",
                                  .dflt = "5",
                                  .help = "steps of the fast weights between two of the slow ones",
                                  .min = 1,
                                  .max = 1000000};
static const weft_option share = {.struct_size = sizeof share,
                                  .type = WEFT_OPT_REAL,
                                  .key = "share",
                                  .dflt = "0.5",
                                  .help = "how far the slow weights go",
                                  .min = 0,
                                  .max = 1};
static const weft_option *const options[] = {&every, &share, NULL};

typedef struct looking {
    const weft_view *view;
    double share;
} looking;

static weft_status emit(void *user, const weft_builder *b)
{
    const looking *l = user;
    weft_expr f = {b, WEFT_OK};
    const uint32_t n = l->view->tensors(l->view->ctx);
    for (weft_tensor t = 1; f.st == WEFT_OK && t <= n; t++) {
        const weft_state_args args = {
            .struct_size = sizeof args, .name = "slow", .like = t, .init = "copy"};
        weft_tensor slow = 0;
        if (b->kind(b->ctx, t) != WEFT_T_PARAM)
            continue;
        f.st = b->state(b->ctx, &args, &slow);
        const weft_tensor way = weft_op2(&f, "sub", t, slow);
        const weft_tensor now =
            weft_op2(&f, "add", slow, weft_op2(&f, "mul", way, weft_number(&f, l->share)));
        weft_assign(&f, slow, now);
        weft_assign(&f, t, now);
    }
    return f.st;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module;
    looking l = {view, conf->real(conf->ctx, "share")};
    if (phase != WEFT_PHASE_SYNC)
        return WEFT_OK;
    return edits->periodic_list(edits->ctx, "acme.lookahead",
                                (uint32_t)conf->integer(conf->ctx, "every"), 0, emit, &l);
}

static const weft_strategy table = {.struct_size = sizeof table, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "acme.lookahead",
                                         .help = "slow weights that follow those of the rule",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.lookahead", "1", "", components, weft_open_host, NULL);
