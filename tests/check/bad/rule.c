/* bad/rule.c: an update rule, Adam with decoupled decay, and its ways of failing. Each name of
 * rule.expected breaks one rule. */
#include "faults.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <weft/expr.h>
#include <weft/optim.h>

static unsigned opened;

/* beta s + (1 - beta) x */
static weft_tensor follow(weft_expr *f, weft_tensor s, weft_tensor x, double beta)
{
    return weft_op2(f, "add", weft_scale(f, s, beta), weft_scale(f, x, 1 - beta));
}

static weft_tensor first_moment(weft_expr *f, const weft_update *u, double beta)
{
    if (beta == 0 && BAD != STATE_LEFT)
        return u->grad;
    const weft_tensor m = weft_state(f, BAD == REOPENED && opened > 4 ? "m2" : "m", u->param);
    if (beta == 0)
        return u->grad;
    const weft_tensor now = follow(f, m, u->grad, beta);
    weft_assign(f, m, now);
    return now;
}

/* BIG_SUM keeps it with a million added, which leaves fp32 few digits. */
static weft_tensor second_moment(weft_expr *f, const weft_update *u, double beta)
{
    const double more = 1 << 20;
    const weft_state_args args = {.struct_size = sizeof args,
                                  .name = "v",
                                  .like = u->param,
                                  .init = BAD == BIG_SUM ? "constant:1048576" : NULL};
    weft_tensor v = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->state(f->b->ctx, &args, &v);
    const weft_tensor old = BAD == BIG_SUM ? weft_op2(f, "sub", v, weft_number(f, more)) : v;
    const weft_tensor now = follow(f, old, weft_op2(f, "mul", u->grad, u->grad), beta);
    weft_assign(f, v, BAD == BIG_SUM ? weft_op2(f, "add", now, weft_number(f, more)) : now);
    return now;
}

/* x over 1 - beta^count */
static weft_tensor corrected(weft_expr *f, const weft_update *u, weft_tensor x, double beta)
{
    weft_tensor count = u->count;
    if (beta == 0)
        return x;
    if (BAD == COUNTS_STEPS && f->st == WEFT_OK)
        f->st = f->b->scalar(f->b->ctx, "step", 0, &count);
    const weft_tensor left = weft_op1(f, "exp", weft_scale(f, count, log(beta)));
    return weft_op2(f, "div", x, weft_op2(f, "sub", weft_number(f, 1), left));
}

/* The direction, altered. */
static weft_tensor altered(weft_expr *f, const weft_conf *conf, const weft_update *u,
                           weft_tensor way)
{
    weft_shape s = {0};
    if (BAD == NAMED && !strncmp(u->name, "norm", 4))
        return weft_scale(f, way, 0.5);
    if (BAD == SIZED && f->st == WEFT_OK) {
        f->st = f->b->shape(f->b->ctx, u->param, &s);
        return weft_scale(f, way, sqrt(64.0 / (double)s.axes[0].size));
    }
    if (BAD == MOVES_PADDING) { /* by the length of the parameter, up where there is no gradient */
        const weft_tensor up = weft_op2(f, "less", u->grad, weft_number(f, 1e-9));
        return weft_op2(f, "mul", weft_op2(f, "sub", way, up), weft_norm(f, u->param));
    }
    for (int64_t i = 0; BAD == FULL && i < conf->integer(conf->ctx, "terms"); i++) {
        char name[32];
        snprintf(name, sizeof name, "t%lld", (long long)i);
        const weft_tensor more = weft_state(f, name, u->param),
                          next = follow(f, more, u->grad, 0.9);
        weft_assign(f, more, next);
        way = weft_op2(f, "add", way, next);
    }
    return way;
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    double betas[2] = {0}, decay = conf->real(conf->ctx, "weight_decay");
    const uint32_t n = conf->reals(conf->ctx, "betas", betas, 2);
    if (n != 2 && BAD != LONG_LIST)
        return b->fail(b->ctx, WEFT_USAGE, "optim.betas: acme.rule takes two numbers");
    if (!(u->flags & WEFT_PARAM_MATRIX) && BAD != DECAYS_ALL)
        decay = 0;
    if (BAD == IGNORES_OPTION)
        decay = 0;
    const weft_tensor m = corrected(&f, u, first_moment(&f, u, betas[0]), betas[0]);
    const weft_tensor v = corrected(&f, u, second_moment(&f, u, betas[1]), betas[1]);
    weft_tensor root = weft_op1(&f, "sqrt", v);
    if (BAD != NO_EPS)
        root = weft_op2(&f, "add", root, weft_number(&f, 1e-8));
    weft_tensor way = weft_op2(&f, "div", m, root);
    if (decay != 0)
        way = weft_op2(&f, "add", way, weft_scale(&f, u->param, decay));
    /* times 1 until the update after `ramp`, from then on times 2 */
    const weft_tensor warm =
        weft_op2(&f, "less", weft_number(&f, (double)conf->integer(conf->ctx, "ramp")), u->count);
    way = weft_op2(&f, "add", way, weft_op2(&f, "mul", way, warm));
    way = altered(&f, conf, u, way);
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", way, u->lr)));
    return f.st;
}

static const weft_option betas = {.struct_size = sizeof betas,
                                  .type = WEFT_OPT_REALS,
                                  .key = "betas",
                                  .dflt = "0.9, 0.999",
                                  .help = "decay rates of the moments",
                                  .max = 0.9999};
static const weft_option weight_decay = {.struct_size = sizeof weight_decay,
                                         .type = WEFT_OPT_REAL,
                                         .key = "weight_decay",
                                         .dflt = "0.1",
                                         .help = "decay of matrices",
                                         .max = 10};
static const weft_option terms = {.struct_size = sizeof terms,
                                  .type = WEFT_OPT_INT,
                                  .key = "terms",
                                  .dflt = "1",
                                  .help = "further moments in the direction",
                                  .min = 1,
                                  .max = 40};
static const weft_option ramp = {.struct_size = sizeof ramp,
                                 .type = WEFT_OPT_INT,
                                 .key = "ramp",
                                 .dflt = "400",
                                 .help = "updates before the direction is doubled",
                                 .min = 300,
                                 .max = 1000};
static const weft_option *const options[] = {&betas, &weight_decay, &ramp,
                                             BAD == FULL ? &terms : NULL, NULL};

static const weft_rule table = {
    sizeof table, BAD == MOVES_PADDING ? WEFT_UNIT_TENSOR : WEFT_UNIT_ELEMENT, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "acme.rule",
                                         .help = "Adam with decoupled weight decay",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

static weft_status open_module(const weft_host *host, void **out)
{
    opened++;
    return weft_open_host(host, out);
}

WEFT_PLUGIN("org.acme.rule", "1", "", components, open_module, NULL);
