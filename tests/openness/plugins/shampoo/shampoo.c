/* shampoo: one side of Shampoo (Gupta, Koren, Singer, "Shampoo: preconditioned stochastic tensor
 * optimization", 2018), with a momentum, as a third party would write it.
 *
 *   m = 0.9 m + g
 *   L = 0.95 L + 0.05 g g'                [rows, rows], starts as the unit matrix
 *   p = p - lr * (L / |L|)^(-1/2) m
 *
 * for parameters of two axes; with fewer columns than rows L is of g'g, and its root stands behind
 * m. The others step by lr * m. The root comes from the coupled iteration of Denman, Beavers,
 * Higham: Y = L / |L|, Z = I, then T = (3 I - Z Y) / 2, Y = Y T, Z = T Z, after which Z is the
 * root. It is made of products of matrices only.
 *
 * Ops match axes by name. So both sides of a square are named, and "rows" of the state is not the
 * parameter's axis: the state is whole on each rank, however the parameter is split. */
#include <weft/expr.h>
#include <weft/optim.h>

enum { ROUNDS = 6 };

static weft_tensor renamed(weft_expr *f, weft_tensor x, int64_t axis, const char *name)
{
    const weft_attr attr = WEFT_ATTR_INT(name, axis);
    return weft_op_with(f, "rename", &attr, 1, &x, 1);
}

/* The product of symmetric matrices [i, j]; one that commutes with the other. */
static weft_tensor product(weft_expr *f, weft_tensor x, weft_tensor y)
{
    return renamed(f, weft_op2(f, "linear", x, renamed(f, y, 0, "k")), 1, "j");
}

static weft_tensor square_state(weft_expr *f, const char *name, weft_tensor like, int64_t n)
{
    const weft_shape s = {.rank = 2, .axes = {{"i", n}, {"j", n}}};
    const weft_state_args args = {
        .struct_size = sizeof args, .name = name, .like = like, .shape = &s, .init = "eye"};
    return weft_state_of(f, &args);
}

static weft_tensor inverse_root(weft_expr *f, weft_tensor l, weft_tensor unit)
{
    weft_tensor y = weft_op2(f, "div", l, weft_norm(f, l)), z = unit;
    for (int i = 0; i < ROUNDS; i++) {
        weft_tensor zy = i ? product(f, z, y) : y;
        weft_tensor t = weft_scale(f, weft_op2(f, "sub", weft_scale(f, unit, 3), zy), 0.5);
        y = product(f, y, t);
        z = i ? product(f, t, z) : t;
    }
    return z;
}

/* The root and `way`, on the side of the shorter axis. */
static weft_tensor scaled(weft_expr *f, const weft_update *u, weft_tensor way,
                          const weft_shape *shape)
{
    const int64_t side = shape->axes[0].size > shape->axes[1].size;
    const int64_t n = shape->axes[side].size;
    weft_tensor l = square_state(f, "l", u->param, n), unit = square_state(f, "unit", u->param, n);
    weft_tensor g = renamed(f, u->grad, side, "i"), same = renamed(f, u->grad, side, "j");
    weft_tensor by = weft_op2(f, side ? "linear.dw" : "linear", g, same);
    weft_tensor now = weft_op2(f, "add", weft_scale(f, l, 0.95), weft_scale(f, by, 0.05));
    weft_assign(f, l, now);
    weft_assign(f, unit, unit);
    weft_tensor root = inverse_root(f, now, unit), from = renamed(f, way, side, "j");
    way = side ? weft_op2(f, "linear", from, root) : weft_op2(f, "linear.dx", root, from);
    return renamed(f, way, side, shape->axes[side].name);
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    (void)conf;
    weft_expr e = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)},
              *f = &e;
    weft_shape shape;
    if (f->st == WEFT_OK)
        f->st = b->shape(b->ctx, u->param, &shape);
    weft_tensor m = weft_state(f, "m", u->param);
    weft_tensor way = weft_op2(f, "add", weft_scale(f, m, 0.9), u->grad);
    weft_assign(f, m, way);
    if (f->st == WEFT_OK && shape.rank == 2)
        way = scaled(f, u, way, &shape);
    weft_assign(f, u->param, weft_op2(f, "sub", u->param, weft_op2(f, "mul", way, u->lr)));
    return f->st;
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_MATRIX, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "acme.shampoo",
                                         .help = "momentum, scaled by a root of second moments",
                                         .table = &rule};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.shampoo", "1", "", components, weft_open_host, NULL);
