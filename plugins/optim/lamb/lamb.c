/* plugins/optim/lamb: layer-wise adaptive moments (You et al., "Large batch optimization for deep
 * learning: training BERT in 76 minutes", 2020).
 *
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   u = mhat / (sqrt(vhat) + eps) + decay p
 *   p = p - lr * norm(p) / norm(u) * u             1 where a norm is 0
 *
 * The norms are those of a whole parameter, so the unit is the tensor. Of ranks, shards and mesh
 * axes nothing is said here: sums of squares over a part are completed by the core. */
#include <math.h>
#include <weft/expr.h>
#include <weft/optim.h>

static const weft_option betas = {.struct_size = sizeof betas,
                                  .type = WEFT_OPT_REALS,
                                  .key = "betas",
                                  .dflt = "0.9, 0.999",
                                  .help = "decay rates of the first and the second moment",
                                  .max = 0.999999};
static const weft_option eps = {.struct_size = sizeof eps,
                                .type = WEFT_OPT_REAL,
                                .key = "eps",
                                .dflt = "1e-6",
                                .help = "added to the root of the second moment",
                                .min = 1e-30,
                                .max = 1};
static const weft_option decay_option = {.struct_size = sizeof decay_option,
                                         .type = WEFT_OPT_REAL,
                                         .key = "weight_decay",
                                         .dflt = "0.01",
                                         .help = "share of matrices added to the direction",
                                         .max = 10};
static const weft_option *const options[] = {&betas, &eps, &decay_option, NULL};

/* 1 - beta^count by Kahan's formula, as in adam/moments.c: the plain difference of fp32 numbers
 * loses digits while count is small and beta close to 1. */
static weft_tensor correction(weft_expr *f, double beta, weft_tensor count)
{
    weft_tensor x = weft_op2(f, "max", weft_scale(f, count, log(beta)), weft_number(f, -20));
    weft_tensor u = weft_op1(f, "exp", x);
    weft_tensor ratio = weft_op2(f, "div", x, weft_op1(f, "log", u));
    return weft_op2(f, "mul", weft_op2(f, "sub", weft_number(f, 1), u), ratio);
}

/* state = beta state + (1 - beta) x; returns the new value over 1 - beta^count */
static weft_tensor moment(weft_expr *f, const char *name, weft_tensor like, double beta,
                          weft_tensor x, weft_tensor count)
{
    weft_tensor old = weft_state(f, name, like);
    weft_tensor now = weft_op2(f, "add", weft_scale(f, old, beta), weft_scale(f, x, 1 - beta));
    weft_assign(f, old, now);
    if (beta == 0)
        return now;
    return weft_op2(f, "div", now, correction(f, beta, count));
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    double beta[3];
    if (conf->reals(conf->ctx, "betas", beta, 3) != 2)
        return b->fail(b->ctx, WEFT_USAGE,
                       "optim.betas must be two numbers, for the first and the second moment, such "
                       "as 0.9, 0.999");
    double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    weft_tensor m = moment(&f, "m", u->param, beta[0], u->grad, u->count);
    weft_tensor v =
        moment(&f, "v", u->param, beta[1], weft_op2(&f, "mul", u->grad, u->grad), u->count);
    weft_tensor root =
        weft_op2(&f, "add", weft_op1(&f, "sqrt", v), weft_number(&f, conf->real(conf->ctx, "eps")));
    weft_tensor way =
        weft_op2(&f, "add", weft_op2(&f, "div", m, root), weft_scale(&f, u->param, decay));
    weft_tensor size = weft_norm(&f, u->param), step = weft_norm(&f, way),
                zero = weft_number(&f, 0);
    weft_tensor both =
        weft_op2(&f, "mul", weft_op2(&f, "less", zero, size), weft_op2(&f, "less", zero, step));
    weft_tensor trust =
        weft_op2(&f, "div", size, weft_op2(&f, "max", step, weft_number(&f, 1e-30)));
    trust = weft_op3(&f, "select", trust, weft_number(&f, 1), both);
    weft_tensor by = weft_op2(&f, "mul", weft_op2(&f, "mul", way, trust), u->lr);
    weft_tensor fresh = weft_op2(&f, "sub", u->param, by);
    weft_assign(&f, u->param, fresh);
    return f.st;
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_TENSOR, update};
static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.rule/1",
    .name = "lamb",
    .help = "Adam with the step of each parameter scaled to its norm (LAMB)",
    .options = options,
    .table = &rule};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.lamb", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
