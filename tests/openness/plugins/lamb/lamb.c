/* lamb: layer-wise adaptive moments (You et al., "Large batch optimization for deep learning:
 * training BERT in 76 minutes", 2020), as a third party would write it.
 *
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   u = mhat / (sqrt(vhat) + eps) + decay p
 *   p = p - lr * norm(p) / norm(u) * u             1 where a norm is 0
 *
 * The norms are those of a whole parameter, so the unit is the tensor. Of ranks, shards and mesh
 * axes nothing is said here: sums of squares over a part are completed by the core. */
#include <math.h>
#include <weft/optim.h>

static const weft_option decay_option = {.struct_size = sizeof decay_option,
                                         .type = WEFT_OPT_REAL,
                                         .key = "weight_decay",
                                         .dflt = "0.01",
                                         .help = "share of matrices added to the direction",
                                         .max = 10};
static const weft_option *const options[] = {&decay_option, NULL};

typedef struct formula {
    const weft_builder *b;
    weft_status st;
} formula;

static weft_tensor op(formula *f, const char *id, weft_tensor x, weft_tensor y, weft_tensor z)
{
    const weft_tensor in[] = {x, y, z};
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->op(f->b->ctx, id, NULL, 0, in, z ? 3 : y ? 2 : 1, &out, 1);
    return out;
}

static weft_tensor number(formula *f, double value)
{
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->constant(f->b->ctx, value, &out);
    return out;
}

static weft_tensor scaled(formula *f, weft_tensor x, double by)
{
    return op(f, "mul", x, number(f, by), 0);
}

/* state = beta state + (1 - beta) x; returns the new value over 1 - beta^count */
static weft_tensor moment(formula *f, const char *name, weft_tensor like, double beta,
                          weft_tensor x, weft_tensor count)
{
    weft_tensor old = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->state(f->b->ctx, name, like, 0, NULL, &old);
    weft_tensor now = op(f, "add", scaled(f, old, beta), scaled(f, x, 1 - beta), 0);
    if (f->st == WEFT_OK)
        f->st = f->b->assign(f->b->ctx, old, now);
    weft_tensor left = op(f, "exp", scaled(f, count, log(beta)), 0, 0);
    return op(f, "div", now, op(f, "sub", number(f, 1), left, 0), 0);
}

static weft_tensor norm(formula *f, weft_tensor x)
{
    return op(f, "sqrt", op(f, "sumsq", x, 0, 0), 0, 0);
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    (void)module;
    formula f = {b, WEFT_OK};
    double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    weft_tensor m = moment(&f, "m", u->param, 0.9, u->grad, u->count);
    weft_tensor v = moment(&f, "v", u->param, 0.999, op(&f, "mul", u->grad, u->grad, 0), u->count);
    weft_tensor root = op(&f, "add", op(&f, "sqrt", v, 0, 0), number(&f, 1e-6), 0);
    weft_tensor way = op(&f, "add", op(&f, "div", m, root, 0), scaled(&f, u->param, decay), 0);
    weft_tensor size = norm(&f, u->param), step = norm(&f, way), zero = number(&f, 0);
    weft_tensor both =
        op(&f, "mul", op(&f, "less", zero, size, 0), op(&f, "less", zero, step, 0), 0);
    weft_tensor trust = op(&f, "div", size, op(&f, "max", step, number(&f, 1e-30), 0), 0);
    trust = op(&f, "select", trust, number(&f, 1), both);
    weft_tensor by = op(&f, "mul", op(&f, "mul", way, trust, 0), u->lr, 0);
    weft_tensor fresh = op(&f, "sub", u->param, by, 0);
    return f.st ? f.st : b->assign(b->ctx, u->param, fresh);
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_TENSOR, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "acme.lamb",
                                         .help = "LAMB",
                                         .options = options,
                                         .table = &rule};
static const weft_component *const components[] = {&component, NULL};

static weft_status begin(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "org.acme.lamb",    .version = "1", .license = "",
    .build = __VERSION__, .components = components, .open = begin};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
