/* muon: momentum, made orthogonal (Jordan et al., "Muon: an optimizer for hidden layers in neural
 * networks", 2024), as a third party would write it.
 *
 *   m = mu m + g;  u = g + mu m                     Nesterov
 *   X = u / norm(u)
 *   five times:  A = X X';  X = a X + (b A + c A A) X
 *   p = p - lr * sqrt(max(1, rows / columns)) * X
 *
 * for parameters that are matrices; the others (gains, biases, and the projections of attention,
 * which have an axis for heads) step by lr * u. The iteration works on the smaller of X X' and X'X.
 *
 * A product of a matrix with itself needs it under two names of axes, since ops match axes by name:
 * that is what `rename` is for. Nothing is said of ranks: where tensor parallelism splits a matrix,
 * the products are partial sums that the core completes.
 *
 * Cost: 5 products of [n, n] with the matrix and itself a step, n the smaller side, whatever the
 * batch; it loses where matrices are large and batches small. */
#include <math.h>
#include <weft/optim.h>

static const weft_option momentum = {.struct_size = sizeof momentum,
                                     .type = WEFT_OPT_REAL,
                                     .key = "momentum",
                                     .dflt = "0.95",
                                     .help = "share of the old momentum in the new",
                                     .max = 1};
static const weft_option *const options[] = {&momentum, NULL};

enum { ROUNDS = 5 };
static const double a = 3.4445, b2 = -4.7750, c3 = 2.0315;

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

static weft_tensor scaled(formula *f, weft_tensor x, double by)
{
    weft_tensor factor = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->constant(f->b->ctx, by, &factor);
    return op(f, "mul", x, factor);
}

static weft_tensor renamed(formula *f, weft_tensor x, int64_t axis, const char *name)
{
    const weft_attr attr = {name, axis, 0};
    weft_tensor out = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->op(f->b->ctx, "rename", &attr, 1, &x, 1, &out, 1);
    return out;
}

/* b A + c A A of the symmetric A [n, n'], in the same names. */
static weft_tensor polynomial(formula *f, weft_tensor square, const char *second)
{
    weft_tensor again = renamed(f, square, 0, "third"); /* [third, n'] */
    weft_tensor twice = renamed(f, op(f, "linear", square, again), 1, second);
    return op(f, "add", scaled(f, square, b2), scaled(f, twice, c3));
}

/* One round for X [rows, columns] with at most as many rows: A = X X' [rows, rows']. */
static weft_tensor wide(formula *f, weft_tensor x)
{
    weft_tensor same = renamed(f, x, 0, "rows'");
    weft_tensor by = polynomial(f, op(f, "linear", x, same), "rows'");
    return op(f, "add", scaled(f, x, a), op(f, "linear.dx", by, same));
}

/* One round for X with more rows: A = X'X [columns, columns'], and X stands before it. */
static weft_tensor tall(formula *f, weft_tensor x)
{
    weft_tensor same = renamed(f, x, 1, "columns'");
    weft_tensor by = polynomial(f, op(f, "linear.dw", x, same), "columns'");
    return op(f, "add", scaled(f, x, a), op(f, "linear", same, by));
}

static weft_tensor orthogonal(formula *f, weft_tensor u, const weft_shape *shape)
{
    const double rows = (double)shape->axes[0].size, columns = (double)shape->axes[1].size;
    weft_tensor norm = op(f, "sqrt", op(f, "sumsq", u, 0), 0), least = 0;
    if (f->st == WEFT_OK)
        f->st = f->b->constant(f->b->ctx, 1e-7, &least);
    weft_tensor x = op(f, "div", u, op(f, "max", norm, least));
    for (int i = 0; i < ROUNDS; i++)
        x = rows > columns ? tall(f, x) : wide(f, x);
    return scaled(f, x, sqrt(fmax(1, rows / columns)));
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    (void)module;
    formula f = {b, WEFT_OK};
    weft_shape shape;
    weft_tensor old = 0;
    double mu = conf->real(conf->ctx, "momentum");
    f.st = b->shape(b->ctx, u->param, &shape);
    if (f.st == WEFT_OK)
        f.st = b->state(b->ctx, "m", u->param, 0, NULL, &old);
    weft_tensor now = op(&f, "add", scaled(&f, old, mu), u->grad);
    weft_tensor way = op(&f, "add", u->grad, scaled(&f, now, mu));
    if (f.st == WEFT_OK)
        f.st = b->assign(b->ctx, old, now);
    if (shape.rank == 2)
        way = orthogonal(&f, way, &shape);
    weft_tensor fresh = op(&f, "sub", u->param, op(&f, "mul", way, u->lr));
    return f.st ? f.st : b->assign(b->ctx, u->param, fresh);
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_MATRIX, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "acme.muon",
                                         .help = "momentum, made orthogonal",
                                         .options = options,
                                         .table = &rule};
static const weft_component *const components[] = {&component, NULL};

static weft_status begin(const weft_host *host, void **module)
{
    *module = (void *)host;
    return WEFT_OK;
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "org.acme.muon",    .version = "1", .license = "",
    .build = __VERSION__, .components = components, .open = begin};

const weft_manifest *weft_plugin_entry(void)
{
    return &manifest;
}
