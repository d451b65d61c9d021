/* AdEMAMix as published (Pagliardini, Ablin and Grangier, 2024, algorithm 1), with unit element:
 *
 *   m1 = b1 m1 + (1 - b1) g        m2 = b3(t) m2 + (1 - b3(t)) g        nu = b2 nu + (1 - b2) g g
 *   p = p - lr ((m1 / (1 - b1^t) + alpha(t) m2) / (sqrt(nu / (1 - b2^t)) + eps) + decay p)
 *
 * With s = min(t / warmup, 1): alpha(t) = alpha s, and
 * log b3(t) = log b1 log b3 / ((1 - s) log b3 + s log b1), at most log b3.
 * The gradient is kept as the state "g", so that a test can compute the same. */
#include <math.h>
#include <weft/expr.h>
#include <weft/optim.h>

/* 1 - e^x for x < 0 to the last bits of fp32 (Kahan; plugins/optim/adam/moments.c). */
static weft_tensor rest(weft_expr *f, weft_tensor x)
{
    x = weft_op2(f, "max", x, weft_number(f, -20));
    const weft_tensor u = weft_op1(f, "exp", x);
    return weft_op2(f, "mul", weft_op2(f, "sub", weft_number(f, 1), u),
                    weft_op2(f, "div", x, weft_op1(f, "log", u)));
}

/* The state `name`, moved towards x by `part` of the way. */
static weft_tensor average(weft_expr *f, const weft_update *u, const char *name, weft_tensor x,
                           weft_tensor part)
{
    const weft_tensor m = weft_state(f, name, u->param);
    const weft_tensor step = weft_op2(f, "mul", weft_op2(f, "sub", x, m), part);
    const weft_tensor next = weft_op2(f, "add", m, step);
    weft_assign(f, m, next);
    return next;
}

static weft_tensor log_beta3(weft_expr *f, weft_tensor s, double b1, double b3)
{
    const weft_tensor below =
        weft_op2(f, "add", weft_number(f, log(b3)), weft_scale(f, s, log(b1) - log(b3)));
    return weft_op2(f, "min", weft_op2(f, "div", weft_number(f, log(b1) * log(b3)), below),
                    weft_number(f, log(b3)));
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr e = {b, WEFT_OK}, *f = &e;
    double beta[3] = {0};
    (void)module;
    if (conf->reals(conf->ctx, "betas", beta, 3) != 3)
        return b->fail(b->ctx, WEFT_USAGE, "optim.betas must be three numbers");
    const weft_tensor g = u->grad, p = u->param;
    const weft_tensor s = weft_op2(
        f, "min", weft_scale(f, u->count, 1 / conf->real(conf->ctx, "ramp")), weft_number(f, 1));
    const weft_tensor m1 = average(f, u, "m1", g, weft_number(f, 1 - beta[0]));
    const weft_tensor m2 = average(f, u, "m2", g, rest(f, log_beta3(f, s, beta[0], beta[2])));
    const weft_tensor nu =
        average(f, u, "nu", weft_op2(f, "mul", g, g), weft_number(f, 1 - beta[1]));
    const weft_tensor fast = weft_op2(f, "div", m1, rest(f, weft_scale(f, u->count, log(beta[0]))));
    const weft_tensor slow =
        weft_op2(f, "mul", m2, weft_scale(f, s, conf->real(conf->ctx, "alpha")));
    const weft_tensor root =
        weft_op1(f, "sqrt", weft_op2(f, "div", nu, rest(f, weft_scale(f, u->count, log(beta[1])))));
    const weft_tensor below =
        weft_op2(f, "add", root, weft_number(f, conf->real(conf->ctx, "eps")));
    const weft_tensor step =
        weft_op2(f, "add", weft_op2(f, "div", weft_op2(f, "add", fast, slow), below),
                 weft_scale(f, p, conf->real(conf->ctx, "weight_decay")));
    weft_assign(f, p, weft_op2(f, "sub", p, weft_op2(f, "mul", u->lr, step)));
    weft_assign(f, weft_state(f, "g", p), g);
    return f->st;
}

#define REAL(name, dflt, min, max)                                                                 \
    static const weft_option name = {sizeof name,    WEFT_OPT_REAL, #name, dflt,                   \
                                     "as published", NULL,          min,   max}
REAL(alpha, "5", 0, 100);
REAL(ramp, "20", 1, 1e9);
REAL(eps, "1e-8", 0, 1);
REAL(weight_decay, "0.1", 0, 1);
static const weft_option betas = {sizeof betas,   WEFT_OPT_REALS, "betas", "0.9, 0.999, 0.9999",
                                  "as published", NULL,           0,       0.9999999};
static const weft_option *const options[] = {&alpha, &ramp, &eps, &weight_decay, &betas, NULL};
static const weft_rule by_element = {sizeof by_element, WEFT_UNIT_ELEMENT, update};
static const weft_component component = {
    sizeof component,        0,       "weft.rule/1", "test.ademamix",
    "AdEMAMix as published", options, &by_element,   NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.test.ademamix", "0", "", components, weft_open_host, NULL);
