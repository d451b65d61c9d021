/* outside/lion.c: an update rule from outside. Lion (Chen et al., "Symbolic discovery of
 * optimization algorithms", 2023): step by the sign of a mix of moment and gradient.
 *
 *   u = sign(b1 m + (1 - b1) g);  p <- p - lr (u + wd p);  m <- b2 m + (1 - b2) g */
#include <weft/optim.h>

/* A formula; after the first failure the rest does nothing. */
typedef struct formula {
    const weft_builder *b;
    weft_status st;
} formula;

static weft_tensor op(formula *f, const char *id, weft_tensor x, weft_tensor y)
{
    const weft_tensor in[] = {x, y};
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->op(f->b->ctx, id, NULL, 0, in, y ? 2 : 1, &out, 1);
    return out;
}

static weft_tensor number(formula *f, double value)
{
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->constant(f->b->ctx, value, &out);
    return out;
}

/* w a + (1 - w) c */
static weft_tensor mix(formula *f, double w, weft_tensor a, weft_tensor c)
{
    return op(f, "add", op(f, "mul", a, number(f, w)), op(f, "mul", c, number(f, 1 - w)));
}

static void assign(formula *f, weft_tensor to, weft_tensor from)
{
    if (f->st == WEFT_OK)
        f->st = f->b->assign(f->b->ctx, to, from);
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    (void)module;
    formula f = {b, WEFT_OK};
    double betas[2] = {0.9, 0.99}, decay = conf->real(conf->ctx, "weight_decay");
    weft_tensor m = 0;
    if (conf->reals(conf->ctx, "betas", betas, 2) != 2)
        return b->fail(b->ctx, WEFT_USAGE, "optim.betas: acme.lion takes two numbers");
    f.st = b->state(b->ctx, "m", u->param, 0, NULL, &m);
    weft_tensor step = op(&f, "sign", mix(&f, betas[0], m, u->grad), 0);
    if (decay > 0 && (u->flags & WEFT_PARAM_MATRIX))
        step = op(&f, "add", step, op(&f, "mul", u->param, number(&f, decay)));
    assign(&f, u->param, op(&f, "sub", u->param, op(&f, "mul", step, u->lr)));
    assign(&f, m, mix(&f, betas[1], m, u->grad));
    return f.st;
}

static weft_status lion_open(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
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
    sizeof lion, 0, "weft.rule/1", "acme.lion", "steps by the sign of the moment", options, &rule};
static const weft_component *const components[] = {&lion, NULL};
static const weft_manifest manifest = {WEFT_MANIFEST_HEAD, "org.acme.lion", "1", "", "",
                                       components,         lion_open,       NULL};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
