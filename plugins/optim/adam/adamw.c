/* plugins/optim/adam/adamw.c: Adam with decoupled weight decay (Loshchilov and Hutter, 2019);
 * equals torch.optim.AdamW.
 *
 *   m = m + (1 - beta1) * (grad - m)
 *   v = beta2 * v + (1 - beta2) * grad * grad
 *   param = param * (1 - lr * weight_decay)                 matrices only
 *           - lr / c1 * m / (sqrt(v / c2) + eps)            c = 1 - beta^count
 *
 * State: 8 bytes per parameter. One pass reads parameter, gradient and both moments and writes
 * parameter and moments, 28 bytes per element; it is memory-bound on every device. */
#include "moments.h"

static const weft_option betas = {.struct_size = sizeof betas,
                                  .type = WEFT_OPT_REALS,
                                  .key = "betas",
                                  .dflt = "0.9, 0.95",
                                  .help = "decay rates of the first and the second moment",
                                  .max = 0.999999};
static const weft_option weight_decay = {
    .struct_size = sizeof weight_decay,
    .type = WEFT_OPT_REAL,
    .key = "weight_decay",
    .dflt = "0.1",
    .help = "decoupled weight decay of matrices, times lr each step",
    .max = 1e6};
static const weft_option *const options[] = {&betas, &adam_eps, &weight_decay, NULL};

static weft_status adamw_update(void *module, const weft_conf *conf, const weft_builder *b,
                                const weft_update *u)
{
    adam_options o;
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    if (f.st == WEFT_OK)
        f.st = adam_read_options(conf, b, u, &o);
    if (f.st != WEFT_OK)
        return f.st;
    const adam_terms t = adam_moments(&f, u, &o, u->grad);
    weft_tensor p = u->param;
    if (o.decay != 0) {
        weft_tensor kept = weft_op2(&f, "sub", weft_number(&f, 1), weft_scale(&f, u->lr, o.decay));
        p = weft_op2(&f, "mul", p, kept);
    }
    weft_assign(&f, u->param, weft_op2(&f, "sub", p, adam_step(&f, &t)));
    return f.st;
}

static const weft_rule table = {sizeof table, WEFT_UNIT_ELEMENT, adamw_update};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "adamw",
                                         .help = "Adam with decoupled weight decay",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.adamw", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
