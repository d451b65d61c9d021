/* plugins/optim/sgd: stochastic gradient descent, a complete update rule on one page. Read this
 * first.
 *
 *   g = grad + weight_decay * param        matrices only
 *   v = momentum * v + g                   only with momentum; v starts at 0
 *   param = param - lr * v                 or g, without momentum
 *
 * A rule is not called while training. It is called while planning, for each sort of parameter, and
 * emits these formulas through the graph builder; the core fuses them into one pass over memory, on
 * any device, and shards it as the placement of the parameter says. Memory: 4 bytes per parameter
 * with momentum, none without. It equals torch.optim.SGD with dampening 0. */
#include <weft/expr.h>
#include <weft/optim.h>

static const weft_option momentum = {.struct_size = sizeof momentum,
                                     .type = WEFT_OPT_REAL,
                                     .key = "momentum",
                                     .dflt = "0",
                                     .help = "momentum: share of the last direction that is kept",
                                     .max = 1};
static const weft_option weight_decay = {.struct_size = sizeof weight_decay,
                                         .type = WEFT_OPT_REAL,
                                         .key = "weight_decay",
                                         .dflt = "0",
                                         .help = "L2 penalty on matrices, as part of the gradient",
                                         .max = 1e6};
static const weft_option *const options[] = {&momentum, &weight_decay, NULL};

static weft_status sgd_update(void *module, const weft_conf *conf, const weft_builder *b,
                              const weft_update *u)
{
    double keep = conf->real(conf->ctx, "momentum");
    double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    weft_tensor g = u->grad;
    if (decay != 0)
        g = weft_op2(&f, "add", g, weft_op2(&f, "mul", u->param, weft_number(&f, decay)));
    if (keep != 0) {
        weft_tensor v = weft_state(&f, "v", u->param);
        g = weft_op2(&f, "add", weft_op2(&f, "mul", v, weft_number(&f, keep)), g);
        weft_assign(&f, v, g);
    }
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", g, u->lr)));
    return f.st;
}

static const weft_rule table = {sizeof table, WEFT_UNIT_ELEMENT, sgd_update};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "sgd",
                                         .help = "gradient descent with optional momentum",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.sgd", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
