/* plugins/optim/sgd: stochastic gradient descent, a whole update rule on one page. Read this first.
 *
 *   g = grad + weight_decay * param        matrices only
 *   v = momentum * v + g                   only with momentum; v starts at 0
 *   param = param - lr * v                 or g, without momentum
 *
 * A rule is not called while training. It is called while planning, once for each parameter, and
 * writes these lines with the graph builder; the core joins them into one pass over memory, on
 * whatever device, and cuts it as the placement of the parameter says. Memory: 4 bytes a parameter
 * with momentum, none without. It equals torch.optim.SGD with dampening 0. */
#include <weft/optim.h>

static const weft_option momentum = {.struct_size = sizeof momentum,
                                     .type = WEFT_OPT_REAL,
                                     .key = "momentum",
                                     .dflt = "0",
                                     .help = "share of the last direction that is kept",
                                     .max = 1};
static const weft_option weight_decay = {.struct_size = sizeof weight_decay,
                                         .type = WEFT_OPT_REAL,
                                         .key = "weight_decay",
                                         .dflt = "0",
                                         .help = "pull of matrices towards 0, as part of the "
                                                 "gradient",
                                         .max = 1e6};
static const weft_option *const options[] = {&momentum, &weight_decay, NULL};

/* A formula in the making. After the first failure its steps do nothing, so that the lines of
 * sgd_update() read as those above; the status is looked at once, at the end. */
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

static weft_tensor op(formula *f, const char *id, weft_tensor x, weft_tensor y)
{
    weft_tensor in[] = {x, y}, out = 0;
    if (!f->st)
        f->st = f->b->op(f->b->ctx, id, NULL, 0, in, 2, &out, 1);
    return out;
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

static weft_status sgd_update(void *module, const weft_conf *conf, const weft_builder *b,
                              const weft_update *u)
{
    (void)module;
    double keep = conf->real(conf->ctx, "momentum");
    double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    formula f = {b, WEFT_OK};
    weft_tensor g = u->grad;
    if (decay != 0)
        g = op(&f, "add", g, op(&f, "mul", u->param, number(&f, decay)));
    if (keep != 0) {
        weft_tensor v = state(&f, "v", u->param);
        g = op(&f, "add", op(&f, "mul", v, number(&f, keep)), g);
        assign(&f, v, g);
    }
    assign(&f, u->param, op(&f, "sub", u->param, op(&f, "mul", g, u->lr)));
    return f.st;
}

static const weft_rule table = {sizeof table, WEFT_UNIT_ELEMENT, sgd_update};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "sgd",
                                         .help = "gradient descent, with momentum if wanted",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

/* A rule keeps nothing between calls: the module is the host's table, and nothing is closed. */
static weft_status sgd_open(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "weft.sgd",         .version = "0.1.0", .license = "",
    .build = __VERSION__, .components = components, .open = sgd_open};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
