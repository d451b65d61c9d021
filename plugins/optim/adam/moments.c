/* moments.c: see moments.h. */
#include "moments.h"

#include <math.h>

const weft_option adam_eps = {.struct_size = sizeof adam_eps,
                              .type = WEFT_OPT_REAL,
                              .key = "eps",
                              .dflt = "1e-8",
                              .help = "added to the root of the second moment",
                              .min = 1e-30,
                              .max = 1};

weft_status adam_read_options(const weft_conf *conf, const weft_builder *b, const weft_update *u,
                              adam_options *out)
{
    double beta[3];
    if (conf->reals(conf->ctx, "betas", beta, 3) != 2)
        return b->fail(b->ctx, WEFT_USAGE,
                       "optim.betas must be two numbers, for the first and the second moment, such "
                       "as 0.9, 0.95");
    out->beta[0] = beta[0];
    out->beta[1] = beta[1];
    out->eps = conf->real(conf->ctx, "eps");
    out->decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    return WEFT_OK;
}

/* 1 - beta^count to the last bits of fp32. Subtracting a rounded power from 1 would lose five
 * digits while count is small and beta close to 1. With x = count log(beta) and u the rounded
 * exp(x), u - 1 is exact, and (u - 1) x / log(u) is exp(x) - 1 (Kahan). Below x = -20 it is -1. */
static weft_tensor correction(weft_expr *f, double beta, weft_tensor count)
{
    if (beta == 0)
        return weft_number(f, 1);
    weft_tensor x = weft_op2(f, "max", weft_scale(f, count, log(beta)), weft_number(f, -20));
    weft_tensor u = weft_op1(f, "exp", x);
    weft_tensor ratio = weft_op2(f, "div", x, weft_op1(f, "log", u));
    return weft_op2(f, "mul", weft_op2(f, "sub", weft_number(f, 1), u), ratio);
}

static weft_tensor first_moment(weft_expr *f, weft_tensor param, weft_tensor g, double beta)
{
    weft_tensor m = weft_state(f, "m", param);
    weft_tensor next = weft_op2(f, "add", m, weft_scale(f, weft_op2(f, "sub", g, m), 1 - beta));
    weft_assign(f, m, next);
    return next;
}

static weft_tensor second_moment(weft_expr *f, weft_tensor param, weft_tensor g, double beta)
{
    weft_tensor v = weft_state(f, "v", param);
    weft_tensor next = weft_op2(f, "add", weft_scale(f, v, beta),
                                weft_op2(f, "mul", weft_scale(f, g, 1 - beta), g));
    weft_assign(f, v, next);
    return next;
}

adam_terms adam_moments(weft_expr *f, const weft_update *u, const adam_options *o, weft_tensor g)
{
    adam_terms t = {.m = first_moment(f, u->param, g, o->beta[0])};
    weft_tensor v = second_moment(f, u->param, g, o->beta[1]);
    t.rate = weft_op2(f, "div", u->lr, correction(f, o->beta[0], u->count));
    weft_tensor root = weft_op1(f, "sqrt", correction(f, o->beta[1], u->count));
    weft_tensor scaled = weft_op2(f, "div", weft_op1(f, "sqrt", v), root);
    t.below = weft_op2(f, "add", scaled, weft_number(f, o->eps));
    return t;
}

weft_tensor adam_step(weft_expr *f, const adam_terms *t)
{
    return weft_op2(f, "div", weft_op2(f, "mul", t->m, t->rate), t->below);
}
