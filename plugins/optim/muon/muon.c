/* plugins/optim/muon: momentum, made orthogonal (Jordan et al., "Muon: an optimizer for hidden
 * layers in neural networks", 2024), and AdamW for what is no hidden matrix.
 *
 *   m = mu m + g;  u = g + mu m                     or m, without Nesterov
 *   X = u / norm(u)
 *   ns_steps times:  A = X X';  X = a X + (b A + c A A) X
 *   p = p (1 - lr * weight_decay) - lr * s * X      s: see adjust_lr
 *
 * This is for hidden matrices. Embeddings, tables of positions and the output head (by their roles,
 * weft_param_args.role), norms and biases take AdamW with the rate lr * adam_lr. Momentum is a sum
 * here and a mean in other programs: X is the same.
 *
 * A matrix has rows [outputs] and columns [inputs], each one axis or several, which are merged: the
 * projections of attention to queries, keys and values have rows [heads, head_dim], any other
 * parameter has its first axis as rows. Fused projections [three, heads, head_dim, embed] are three
 * matrices.
 *
 * The iteration works on the smaller of X X' and X'X, of projections to heads always on X'X. Tensor
 * parallelism splits heads and the inner axis of ffn. So it splits the axis that this product sums
 * over: the product is a partial sum, which the core completes, and all others are of whole
 * squares. Where the split axis is the smaller one, planning fails. A product of a matrix with
 * itself needs it under two names of axes, since ops match axes by name: that is what `rename` is
 * for.
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

/* The axes of `x` from `axis` on, `n` of them, as one. */
static weft_tensor merged(weft_expr *f, weft_tensor x, int64_t axis, uint32_t n, const char *name)
{
    const weft_attr attr = WEFT_ATTR_INT(name, axis);
    while (n-- > 1)
        x = weft_op_with(f, "merge", &attr, 1, &x, 1);
    return x;
}

/* The converse: the axis becomes the `n` axes `to`. */
static weft_tensor unmerged(weft_expr *f, weft_tensor x, int64_t axis, uint32_t n,
                            const weft_axis *to)
{
    while (n-- > 1) {
        const weft_attr attrs[] = {WEFT_ATTR_INT(n > 1 ? "left" : to[0].name, axis),
                                   WEFT_ATTR_INT(to[n].name, axis + 1),
                                   WEFT_ATTR_INT("size", to[n].size)};
        x = weft_op_with(f, "unmerge", attrs, 3, &x, 1);
    }
    return x;
}

/* --- which axes are rows and columns --- */

/* The axes of a parameter: `batch` that count matrices, then rows, then columns. */
typedef struct form {
    const weft_axis *axes;
    uint32_t batch, rows, columns; /* numbers of axes */
    double height, width;          /* elements of rows and of columns */
    bool heads;                    /* rows are heads */
} form;

static form form_of(const weft_update *u, const weft_shape *shape)
{
    static const char *const to_heads[] = {"attention.qkv", "attention.query", "attention.key",
                                           "attention.value"};
    form m = {.axes = shape->axes, .rows = 1, .height = 1, .width = 1};
    for (size_t i = 0; u->role && i < sizeof to_heads / sizeof *to_heads; i++)
        m.heads = m.heads || !strcmp(u->role, to_heads[i]);
    m.batch = m.heads && !strcmp(u->role, to_heads[0]) && shape->rank > 2;
    if (m.heads)
        m.rows = shape->rank - 1 - m.batch;
    m.columns = shape->rank - m.batch - m.rows;
    for (uint32_t i = m.batch; i < shape->rank; i++)
        *(i < m.batch + m.rows ? &m.height : &m.width) *= (double)shape->axes[i].size;
    return m;
}

/* What the axes from `first` on are called as one. */
static const char *name_of(const form *m, uint32_t first, uint32_t n, const char *together)
{
    return n > 1 ? together : m->axes[first].name;
}

static weft_tensor as_matrix(weft_expr *f, const form *m, weft_tensor x)
{
    x = merged(f, x, m->batch + m->rows, m->columns, "columns");
    return merged(f, x, m->batch, m->rows, "rows");
}

static weft_tensor as_parameter(weft_expr *f, const form *m, weft_tensor x)
{
    x = unmerged(f, x, m->batch, m->rows, m->axes + m->batch);
    return unmerged(f, x, m->batch + m->rows, m->columns, m->axes + m->batch + m->rows);
}

/* --- the iteration --- */

/* The ops of a product with the matrix w: x w', x w and x'w; of each matrix of a batch. */
typedef struct products {
    const char *right, *plain, *left;
    int64_t first; /* the axis of rows */
} products;
static const products single = {"linear", "linear.dx", "linear.dw", 0},
                      batched = {"bmm", "bmm.dx", "bmm.dw", 1};

/* b A + c A A of the symmetric A [n, n'], in the same names. */
static weft_tensor polynomial(weft_expr *f, const products *by, weft_tensor square,
                              const char *second)
{
    weft_tensor again = renamed(f, square, by->first, "third"); /* [third, n'] */
    weft_tensor twice = weft_op2(f, by->right, square, again);
    twice = renamed(f, twice, by->first + 1, second);
    return weft_op2(f, "add", weft_scale(f, square, b2), weft_scale(f, twice, c3));
}

/* One round on A = X X' [rows, rows']. */
static weft_tensor wide(weft_expr *f, const products *by, weft_tensor x)
{
    weft_tensor same = renamed(f, x, by->first, "rows'");
    weft_tensor p = polynomial(f, by, weft_op2(f, by->right, x, same), "rows'");
    return weft_op2(f, "add", weft_scale(f, x, a), weft_op2(f, by->plain, p, same));
}

/* One round on A = X'X [columns, columns'], with X before it. */
static weft_tensor tall(weft_expr *f, const products *by, weft_tensor x)
{
    weft_tensor same = renamed(f, x, by->first + 1, "columns'");
    weft_tensor p = polynomial(f, by, weft_op2(f, by->left, x, same), "columns'");
    return weft_op2(f, "add", weft_scale(f, x, a), weft_op2(f, by->right, same, p));
}

static weft_tensor at_least(weft_expr *f, weft_tensor size)
{
    return weft_op2(f, "max", size, weft_number(f, 1e-7));
}

/* Each matrix of a batch over its norm. Its elements are a row x: the norm is the root of x x', and
 * x over it is a product, too. So a sharded tensor is gathered once, as it is. */
static weft_tensor each_of_norm_one(weft_expr *f, const form *m, weft_tensor x)
{
    const weft_axis matrix[] = {
        {name_of(m, m->batch, m->rows, "rows"), (int64_t)m->height},
        {name_of(m, m->batch + m->rows, m->columns, "columns"), (int64_t)m->width}};
    const weft_axis row[] = {{"one", 1}, {"all", (int64_t)(m->height * m->width)}};
    x = unmerged(f, merged(f, x, 1, 2, "all"), 1, 2, row);
    weft_tensor same = renamed(f, x, 1, "two");
    weft_tensor size = at_least(f, weft_op1(f, "sqrt", weft_op2(f, "bmm", x, same)));
    x = weft_op2(f, "bmm.dx", weft_op2(f, "div", weft_number(f, 1), size), same);
    return unmerged(f, merged(f, x, 1, 2, "all"), 1, 2, matrix);
}

static weft_tensor orthogonal(weft_expr *f, const weft_conf *conf, const form *m, weft_tensor u)
{
    const products *by = m->batch ? &batched : &single;
    const int64_t rounds = conf->integer(conf->ctx, "ns_steps");
    weft_tensor x = as_matrix(f, m, u);
    x = m->batch ? each_of_norm_one(f, m, x) : weft_op2(f, "div", x, at_least(f, weft_norm(f, u)));
    for (int64_t i = 0; i < rounds; i++)
        x = m->heads || m->height > m->width ? tall(f, by, x) : wide(f, by, x);
    const bool as_adamw = !strcmp(conf->text(conf->ctx, "adjust_lr"), "match_rms_adamw");
    x = weft_scale(f, x,
                   as_adamw ? 0.2 * sqrt(fmax(m->height, m->width))
                            : sqrt(fmax(1, m->height / m->width)));
    return as_parameter(f, m, x);
}

/* The step of a hidden matrix, before the rate. */
static weft_tensor matrix_step(weft_expr *f, const weft_conf *conf, const weft_update *u,
                               const form *m)
{
    const double mu = conf->real(conf->ctx, "momentum");
    weft_tensor old = weft_state(f, "m", u->param);
    weft_tensor now = weft_op2(f, "add", weft_scale(f, old, mu), u->grad), way = now;
    if (conf->integer(conf->ctx, "nesterov"))
        way = weft_op2(f, "add", u->grad, weft_scale(f, now, mu));
    weft_assign(f, old, now);
    return orthogonal(f, conf, m, way);
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
    bool hidden = shape->rank > 1 && u->flags & WEFT_PARAM_MATRIX;
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
    const form m = form_of(u, &shape);
    weft_tensor way = hidden ? matrix_step(&f, conf, u, &m) : adam_step(&f, conf, u);
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

WEFT_PLUGIN("weft.muon", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
