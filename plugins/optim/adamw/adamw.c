/* plugins/optim/adamw: Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as
 * torch.optim.AdamW.
 *
 *   m = m + (1 - beta1) * (grad - m)
 *   v = beta2 * v + (1 - beta2) * grad * grad
 *   param = param * (1 - lr * weight_decay)                 matrices only
 *           - lr / c1 * m / (sqrt(v / c2) + eps)            c = 1 - beta^count
 *
 * State: 8 bytes a parameter. One pass reads parameter, gradient and both moments and writes three
 * of them back, 28 bytes an element; it is bound by memory on every device. */
#include <weft/optim.h>

#include <math.h>

static const weft_option betas = {.struct_size = sizeof betas,
                                  .type = WEFT_OPT_REALS,
                                  .key = "betas",
                                  .dflt = "0.9, 0.95",
                                  .help = "share of the old moments that is kept: first, second",
                                  .max = 0.999999};
static const weft_option eps = {.struct_size = sizeof eps,
                                .type = WEFT_OPT_REAL,
                                .key = "eps",
                                .dflt = "1e-8",
                                .help = "added to the root of the second moment",
                                .min = 1e-30,
                                .max = 1};
static const weft_option weight_decay = {.struct_size = sizeof weight_decay,
                                         .type = WEFT_OPT_REAL,
                                         .key = "weight_decay",
                                         .dflt = "0.1",
                                         .help = "share of matrices that goes each step, times lr",
                                         .max = 1e6};
static const weft_option *const options[] = {&betas, &eps, &weight_decay, NULL};

/* A formula in the making: after the first failure its steps do nothing (see plugins/optim/sgd). */
typedef struct formula {
    const weft_builder *b;
    weft_status st;
} formula;

static weft_tensor number(formula *f, double value)
{
    weft_tensor out = 0;
    if (!f->st)
        f->st = f->b->constant(f->b->ctx, value, &out);
    return out;
}

/* y 0: an op of one input */
static weft_tensor op(formula *f, const char *id, weft_tensor x, weft_tensor y)
{
    weft_tensor in[] = {x, y}, out = 0;
    if (!f->st)
        f->st = f->b->op(f->b->ctx, id, NULL, 0, in, y ? 2 : 1, &out, 1);
    return out;
}

static weft_tensor scaled(formula *f, weft_tensor x, double factor)
{
    return op(f, "mul", x, number(f, factor));
}

static weft_tensor state(formula *f, const char *name, weft_tensor like)
{
    weft_tensor out = 0;
    if (!f->st)
        f->st = f->b->state(f->b->ctx, name, like, 0, NULL, &out);
    return out;
}

static void assign(formula *f, weft_tensor to, weft_tensor value)
{
    if (!f->st)
        f->st = f->b->assign(f->b->ctx, to, value);
}

/* 1 - beta^count to the last bits of fp32. Subtracting a rounded power from 1 would lose five
 * digits while count is small and beta close to 1. With x = count log(beta) and u the rounded
 * exp(x), u - 1 is exact, and (u - 1) x / log(u) is exp(x) - 1 (Kahan). Below x = -20 it is -1. */
static weft_tensor correction(formula *f, double beta, weft_tensor count)
{
    if (beta == 0)
        return number(f, 1);
    weft_tensor x = op(f, "max", scaled(f, count, log(beta)), number(f, -20));
    weft_tensor u = op(f, "exp", x, 0);
    weft_tensor ratio = op(f, "div", x, op(f, "log", u, 0));
    return op(f, "mul", op(f, "sub", number(f, 1), u), ratio);
}

static weft_tensor first_moment(formula *f, const weft_update *u, weft_tensor g, double beta)
{
    weft_tensor m = state(f, "m", u->param);
    weft_tensor next = op(f, "add", m, scaled(f, op(f, "sub", g, m), 1 - beta));
    assign(f, m, next);
    return next;
}

static weft_tensor second_moment(formula *f, const weft_update *u, weft_tensor g, double beta)
{
    weft_tensor v = state(f, "v", u->param);
    weft_tensor next = op(f, "add", scaled(f, v, beta), op(f, "mul", scaled(f, g, 1 - beta), g));
    assign(f, v, next);
    return next;
}

static weft_status adamw_update(void *module, const weft_conf *conf, const weft_builder *b,
                                const weft_update *u)
{
    (void)module;
    double beta[3], small = conf->real(conf->ctx, "eps");
    double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    if (conf->reals(conf->ctx, "betas", beta, 3) != 2)
        return b->fail(b->ctx, WEFT_USAGE,
                       "optim.betas must be two numbers, for the first and the second moment, such "
                       "as 0.9, 0.95");
    formula f = {b, WEFT_OK};
    weft_tensor p = u->param;
    weft_tensor m = first_moment(&f, u, u->grad, beta[0]);
    weft_tensor v = second_moment(&f, u, u->grad, beta[1]);
    weft_tensor rate = op(&f, "div", u->lr, correction(&f, beta[0], u->count));
    weft_tensor root = op(&f, "sqrt", correction(&f, beta[1], u->count), 0);
    weft_tensor below = op(&f, "add", op(&f, "div", op(&f, "sqrt", v, 0), root), number(&f, small));
    if (decay != 0)
        p = op(&f, "mul", p, op(&f, "sub", number(&f, 1), scaled(&f, u->lr, decay)));
    assign(&f, u->param, op(&f, "sub", p, op(&f, "div", op(&f, "mul", m, rate), below)));
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

static weft_status adamw_open(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "weft.adamw",       .version = "0.1.0", .license = "",
    .build = __VERSION__, .components = components, .open = adamw_open};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
