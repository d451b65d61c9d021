/* plugins/optim/muon: momentum, made orthogonal (Jordan et al., "Muon: an optimizer for hidden
 * layers in neural networks", 2024), and AdamW for what is no hidden matrix.
 *
 *   m = mu m + g;  u = g + mu m                     or m, without Nesterov
 *   X = u / norm(u)
 *   ns_steps times:  A = X X';  X = a X + (b A + c A A) X
 *   p = p (1 - lr * weight_decay) - lr * s * X      s: see adjust_lr
 *
 * This is for hidden matrices. Embeddings, tables of positions and the output head (by their roles,
 * weft_param_args.role), vectors, and the projections of attention, which have an axis for heads,
 * take AdamW with the rate lr * adam_lr. Momentum is a sum here and a mean in other programs: X is
 * the same.
 *
 * The iteration works on the smaller of X X' and X'X. A product of a matrix with itself needs it
 * under two names of axes, since ops match axes by name: that is what `rename` is for. Nothing is
 * said of ranks: where tensor parallelism splits a matrix, the products are partial sums that the
 * core completes.
 *
 * State: 4 bytes an element of hidden matrices, 8 of others. Cost: ns_steps products of [n, n] with
 * the matrix and itself a step, n the smaller side, whatever the batch; it loses where matrices are
 * large and batches small. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <weft/expr.h>
#include <weft/optim.h>

#define OPTION(NAME, ...) static const weft_option NAME = {.struct_size = sizeof NAME, __VA_ARGS__}
OPTION(momentum, .type = WEFT_OPT_REAL, .key = "momentum", .dflt = "0.95",
       .help = "share of the old momentum in the new", .max = 1);
OPTION(nesterov, .type = WEFT_OPT_BOOL, .key = "nesterov", .dflt = "on",
       .help = "look one step ahead along the momentum");
OPTION(ns_steps, .type = WEFT_OPT_INT, .key = "ns_steps", .dflt = "5",
       .help = "Newton-Schulz iterations that make the momentum orthogonal", .min = 1, .max = 20);
OPTION(adjust_lr, .type = WEFT_OPT_CHOICE, .key = "adjust_lr", .dflt = "original",
       .choices = "original|match_rms_adamw",
       .help = "factor of lr for a matrix: sqrt(max(1, rows / columns)), or 0.2 sqrt(max(rows, "
               "columns)), with which rates for AdamW fit");
OPTION(weight_decay, .type = WEFT_OPT_REAL, .key = "weight_decay", .dflt = "0",
       .help = "decoupled weight decay of matrices, times the rate each step", .max = 1e6);
OPTION(adam_lr, .type = WEFT_OPT_REAL, .key = "adam_lr", .dflt = "0.1",
       .help = "rate of parameters that take AdamW, as a share of lr", .max = 1e6);
OPTION(adam_betas, .type = WEFT_OPT_REALS, .key = "adam_betas", .dflt = "0.9, 0.95",
       .help = "decay rates of the moments of parameters that take AdamW", .max = 0.999999);
OPTION(adam_eps, .type = WEFT_OPT_REAL, .key = "adam_eps", .dflt = "1e-8",
       .help = "added to the root of the second moment of parameters that take AdamW", .min = 1e-30,
       .max = 1);
static const weft_option *const options[] = {&momentum,   &nesterov,     &ns_steps,
                                             &adjust_lr,  &weight_decay, &adam_lr,
                                             &adam_betas, &adam_eps,     NULL};

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

static weft_tensor orthogonal(weft_expr *f, const weft_conf *conf, weft_tensor u,
                              const weft_shape *shape)
{
    const double rows = (double)shape->axes[0].size, columns = (double)shape->axes[1].size;
    const int64_t rounds = conf->integer(conf->ctx, "ns_steps");
    weft_tensor size = weft_op2(f, "max", weft_norm(f, u), weft_number(f, 1e-7));
    weft_tensor x = weft_op2(f, "div", u, size);
    for (int64_t i = 0; i < rounds; i++)
        x = rows > columns ? tall(f, x) : wide(f, x);
    const bool as_adamw = !strcmp(conf->text(conf->ctx, "adjust_lr"), "match_rms_adamw");
    return weft_scale(f, x,
                      as_adamw ? 0.2 * sqrt(fmax(rows, columns)) : sqrt(fmax(1, rows / columns)));
}

/* The step of a hidden matrix, before the rate. */
static weft_tensor matrix_step(weft_expr *f, const weft_conf *conf, const weft_update *u,
                               const weft_shape *shape)
{
    const double mu = conf->real(conf->ctx, "momentum");
    weft_tensor old = weft_state(f, "m", u->param);
    weft_tensor now = weft_op2(f, "add", weft_scale(f, old, mu), u->grad), way = now;
    if (conf->integer(conf->ctx, "nesterov"))
        way = weft_op2(f, "add", u->grad, weft_scale(f, now, mu));
    weft_assign(f, old, now);
    return orthogonal(f, conf, way, shape);
}

/* state = beta state + (1 - beta) x; returns the new value over 1 - beta^count. */
static weft_tensor moment(weft_expr *f, const char *name, const weft_update *u, double beta,
                          weft_tensor x)
{
    weft_tensor old = weft_state(f, name, u->param);
    weft_tensor now = weft_op2(f, "add", weft_scale(f, old, beta), weft_scale(f, x, 1 - beta));
    weft_assign(f, old, now);
    if (beta == 0)
        return now;
    weft_tensor left = weft_op1(f, "exp", weft_scale(f, u->count, log(beta)));
    return weft_op2(f, "div", now, weft_op2(f, "sub", weft_number(f, 1), left));
}

/* The step of AdamW, before the rate. */
static weft_tensor adam_step(weft_expr *f, const weft_conf *conf, const weft_update *u)
{
    double beta[3];
    if (conf->reals(conf->ctx, "adam_betas", beta, 3) != 2) {
        f->st = f->b->fail(f->b->ctx, WEFT_USAGE,
                           "optim.adam_betas must be two numbers, for the first and the second "
                           "moment, such as 0.9, 0.95");
        return 0;
    }
    weft_tensor m = moment(f, "m", u, beta[0], u->grad);
    weft_tensor v = moment(f, "v", u, beta[1], weft_op2(f, "mul", u->grad, u->grad));
    weft_tensor eps = weft_number(f, conf->real(conf->ctx, "adam_eps"));
    return weft_op2(f, "div", m, weft_op2(f, "add", weft_op1(f, "sqrt", v), eps));
}

/* A matrix whose role is none of these; a family that says no role has hidden matrices only. */
static bool is_hidden_matrix(const weft_update *u, const weft_shape *shape)
{
    static const char *const others[] = {"embedding", "position", "head", "norm", "bias"};
    bool hidden = shape->rank == 2 && u->flags & WEFT_PARAM_MATRIX;
    for (size_t i = 0; u->role && i < sizeof others / sizeof *others; i++)
        hidden = hidden && strcmp(u->role, others[i]) != 0;
    return hidden;
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    weft_shape shape;
    if (f.st == WEFT_OK)
        f.st = b->shape(b->ctx, u->param, &shape);
    if (f.st != WEFT_OK)
        return f.st;
    const bool hidden = is_hidden_matrix(u, &shape);
    const double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    weft_tensor way = hidden ? matrix_step(&f, conf, u, &shape) : adam_step(&f, conf, u);
    weft_tensor rate = hidden ? u->lr : weft_scale(&f, u->lr, conf->real(conf->ctx, "adam_lr"));
    if (decay != 0)
        way = weft_op2(&f, "add", way, weft_scale(&f, u->param, decay));
    weft_tensor fresh = weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", way, rate));
    weft_assign(&f, u->param, fresh);
    return f.st;
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_MATRIX, update};
static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.rule/1",
    .name = "muon",
    .help = "orthogonal momentum for hidden matrices, AdamW for others",
    .options = options,
    .table = &rule};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.muon", "0.1.0", "", components, weft_open_host, NULL);
