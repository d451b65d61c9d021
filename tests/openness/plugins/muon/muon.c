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
#include <weft/expr.h>
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

static weft_tensor renamed(weft_expr *f, weft_tensor x, int64_t axis, const char *name)
{
    const weft_attr attr = WEFT_ATTR_INT(name, axis);
    return weft_op_with(f, "rename", &attr, 1, &x, 1);
}

/* b A + c A A of the symmetric A [n, n'], in the same names. */
static weft_tensor polynomial(weft_expr *f, weft_tensor square, const char *second)
{
    weft_tensor again = renamed(f, square, 0, "third"); /* [third, n'] */
    weft_tensor twice = renamed(f, weft_op2(f, "linear", square, again), 1, second);
    return weft_op2(f, "add", weft_scale(f, square, b2), weft_scale(f, twice, c3));
}

/* One round for X [rows, columns] with at most as many rows: A = X X' [rows, rows']. */
static weft_tensor wide(weft_expr *f, weft_tensor x)
{
    weft_tensor same = renamed(f, x, 0, "rows'");
    weft_tensor by = polynomial(f, weft_op2(f, "linear", x, same), "rows'");
    return weft_op2(f, "add", weft_scale(f, x, a), weft_op2(f, "linear.dx", by, same));
}

/* One round for X with more rows: A = X'X [columns, columns'], and X stands before it. */
static weft_tensor tall(weft_expr *f, weft_tensor x)
{
    weft_tensor same = renamed(f, x, 1, "columns'");
    weft_tensor by = polynomial(f, weft_op2(f, "linear.dw", x, same), "columns'");
    return weft_op2(f, "add", weft_scale(f, x, a), weft_op2(f, "linear", same, by));
}

static weft_tensor orthogonal(weft_expr *f, weft_tensor u, const weft_shape *shape)
{
    const double rows = (double)shape->axes[0].size, columns = (double)shape->axes[1].size;
    weft_tensor size = weft_op2(f, "max", weft_norm(f, u), weft_number(f, 1e-7));
    weft_tensor x = weft_op2(f, "div", u, size);
    for (int i = 0; i < ROUNDS; i++)
        x = rows > columns ? tall(f, x) : wide(f, x);
    return weft_scale(f, x, sqrt(fmax(1, rows / columns)));
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    weft_shape shape;
    double mu = conf->real(conf->ctx, "momentum");
    if (f.st == WEFT_OK)
        f.st = b->shape(b->ctx, u->param, &shape);
    weft_tensor old = weft_state(&f, "m", u->param);
    weft_tensor now = weft_op2(&f, "add", weft_scale(&f, old, mu), u->grad);
    weft_tensor way = weft_op2(&f, "add", u->grad, weft_scale(&f, now, mu));
    weft_assign(&f, old, now);
    if (shape.rank == 2)
        way = orthogonal(&f, way, &shape);
    weft_tensor fresh = weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", way, u->lr));
    weft_assign(&f, u->param, fresh);
    return f.st;
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_MATRIX, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "acme.muon",
                                         .help = "momentum, made orthogonal",
                                         .options = options,
                                         .table = &rule};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.muon", "1", "", components, weft_open_host, NULL);
