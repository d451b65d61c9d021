/* plugins/optim/adam/adam.c: Adam (Kingma and Ba, 2015); equals torch.optim.Adam.
 *
 *   g = grad + weight_decay * param                        matrices only
 *   m = m + (1 - beta1) * (g - m)
 *   v = beta2 * v + (1 - beta2) * g * g
 *   param = param - lr / c1 * m / (sqrt(v / c2) + eps)     c = 1 - beta^count
 *
 * The decay passes through the moments (L2 regularization), so parameters with large gradients
 * decay less. Transformers are usually trained with adamw, which decouples it. State: 8 bytes per
 * parameter. */
#include "moments.h"

static const weft_option betas = {.struct_size = sizeof betas,
                                  .type = WEFT_OPT_REALS,
                                  .key = "betas",
                                  .dflt = "0.9, 0.999",
                                  .help = "decay rates of the first and the second moment",
                                  .max = 0.999999};
static const weft_option weight_decay = {.struct_size = sizeof weight_decay,
                                         .type = WEFT_OPT_REAL,
                                         .key = "weight_decay",
                                         .dflt = "0",
                                         .help = "L2 penalty on matrices, as part of the gradient",
                                         .max = 1e6};
static const weft_option *const options[] = {&betas, &adam_eps, &weight_decay, NULL};

static weft_status adam_update(void *module, const weft_conf *conf, const weft_builder *b,
                               const weft_update *u)
{
    adam_options o;
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    if (f.st == WEFT_OK)
        f.st = adam_read_options(conf, b, u, &o);
    if (f.st != WEFT_OK)
        return f.st;
    weft_tensor g = u->grad;
    if (o.decay != 0)
        g = weft_op2(&f, "add", g, weft_scale(&f, u->param, o.decay));
    const adam_terms t = adam_moments(&f, u, &o, g);
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, adam_step(&f, &t)));
    return f.st;
}

static const weft_rule table = {sizeof table, WEFT_UNIT_ELEMENT, adam_update};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "adam",
                                         .help = "Adam, with the weight decay in the gradient",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.adam", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
