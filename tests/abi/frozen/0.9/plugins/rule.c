/* rule.c: an update rule. Lion (Chen et al., "Symbolic discovery of
 * optimization algorithms", 2023): step by the sign of a mix of moment and gradient.
 *
 *   u = sign(b1 m + (1 - b1) g);  p <- p - lr (u + wd p);  m <- b2 m + (1 - b2) g */
#include <weft/expr.h>
#include <weft/optim.h>

/* w a + (1 - w) c */
static weft_tensor mix(weft_expr *f, double w, weft_tensor a, weft_tensor c)
{
    return weft_op2(f, "add", weft_op2(f, "mul", a, weft_number(f, w)),
                    weft_op2(f, "mul", c, weft_number(f, 1 - w)));
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    double betas[2], decay = conf->real(conf->ctx, "weight_decay");
    if (conf->reals(conf->ctx, "betas", betas, 2) !=
        2) /* the answer counts those beyond the room, too */
        return b->fail(b->ctx, WEFT_USAGE, "optim.betas: acme.lion takes two numbers");
    weft_tensor m = weft_state(&f, "m", u->param);
    weft_tensor step = weft_op1(&f, "sign", mix(&f, betas[0], m, u->grad));
    if (decay > 0 && (u->flags & WEFT_PARAM_MATRIX))
        step = weft_op2(&f, "add", step, weft_op2(&f, "mul", u->param, weft_number(&f, decay)));
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", step, u->lr)));
    weft_assign(&f, m, mix(&f, betas[1], m, u->grad));
    return f.st;
}

static const weft_option betas = {sizeof betas,
                                  WEFT_OPT_REALS,
                                  "betas",
                                  "0.9, 0.99",
                                  "weights of the moment in the step and in itself",
                                  NULL,
                                  0,
                                  1};
static const weft_option decay = {
    sizeof decay, WEFT_OPT_REAL, "weight_decay", "0", "pull towards 0", NULL, 0, 1};
static const weft_option *const options[] = {&betas, &decay, NULL};
static const weft_rule rule = {sizeof rule, WEFT_UNIT_ELEMENT, update};
static const weft_component lion = {
    sizeof lion, 0,     "weft.rule/1", "acme.lion", "steps by the sign of the moment",
    options,     &rule, NULL};
static const weft_component *const components[] = {&lion, NULL};
WEFT_PLUGIN("org.acme.lion", "1", "", components, weft_open_host, NULL);
