/* plugins/optim/adafactor: Adafactor without momentum (Shazeer and Stern, "Adafactor: adaptive
 * learning rates with sublinear memory cost", 2018).
 *
 * Of the second moment of a matrix [rows, columns] only the means of its rows and of its columns
 * are kept, rows + columns numbers instead of rows * columns:
 *
 *   R = beta R + (1 - beta) mean over columns of (g g + 1e-30)     1 - beta = count^-decay_rate
 *   C = beta C + (1 - beta) mean over rows of (g g + 1e-30)
 *   V = R C / mean(R)                                  for vectors: V itself, as in Adam
 *   U = g / sqrt(V);  U = U / max(1, rms(U) / d)       d = clip_rms
 *   alpha = max(1e-3, rms(p)) * rho                    rho = lr
 *   p = p (1 - rho * weight_decay) - alpha U
 *
 * Rows are all axes of a parameter but the last, columns the last one. R and C have one axis more,
 * "one", of size 1, over which a product of them is their outer product; sums along an axis are
 * products with ones. A sum of numbers that are not negative is the sum of squares of their roots.
 *
 * Cost: three products that read the matrix once a step. It loses to Adam where memory suffices. */
#include <math.h>
#include <weft/expr.h>
#include <weft/optim.h>

static const weft_option clip_option = {.struct_size = sizeof clip_option,
                                        .type = WEFT_OPT_REAL,
                                        .key = "clip_rms",
                                        .dflt = "1",
                                        .help = "largest root mean square of an update",
                                        .min = 1e-6,
                                        .max = 1e6};
static const weft_option decay_rate = {
    .struct_size = sizeof decay_rate,
    .type = WEFT_OPT_REAL,
    .key = "decay_rate",
    .dflt = "0.8",
    .help = "exponent e of the share count^-e that new squares have in the second moment",
    .max = 1};
static const weft_option weight_decay = {
    .struct_size = sizeof weight_decay,
    .type = WEFT_OPT_REAL,
    .key = "weight_decay",
    .dflt = "0",
    .help = "decoupled weight decay of matrices, times lr each step",
    .max = 1e6};
static const weft_option *const options[] = {&clip_option, &decay_rate, &weight_decay, NULL};

typedef struct work {
    weft_expr f;
    weft_shape shape;
    weft_tensor param, rest; /* rest: 1 - beta */
    double rows, columns;
} work;

/* old + (1 - beta) (x - old), assigned to old */
static weft_tensor follow(work *w, weft_tensor old, weft_tensor x)
{
    weft_tensor by = weft_op2(&w->f, "mul", weft_op2(&w->f, "sub", x, old), w->rest);
    weft_tensor now = weft_op2(&w->f, "add", old, by);
    weft_assign(&w->f, old, now);
    return now;
}

/* A state [one, axes from `first` to `end` of the parameter]. */
static weft_tensor factor(work *w, const char *name, uint32_t first, uint32_t end)
{
    weft_shape s = {.rank = 1, .axes = {{"one", 1}}};
    while (first < end)
        s.axes[s.rank++] = w->shape.axes[first++];
    const weft_state_args args = {
        .struct_size = sizeof args, .name = name, .like = w->param, .shape = &s};
    return weft_state_of(&w->f, &args);
}

static weft_tensor ones_like(work *w, weft_tensor x)
{
    return weft_op2(&w->f, "add", weft_scale(&w->f, x, 0), weft_number(&w->f, 1));
}

static weft_tensor second_moment(work *w, weft_tensor squares)
{
    weft_expr *f = &w->f;
    if (w->shape.rank < 2)
        return follow(w, weft_state(f, "v", w->param), squares);
    const uint32_t last = w->shape.rank - 1;
    weft_tensor r = factor(w, "r", 0, last), c = factor(w, "c", last, last + 1);
    weft_tensor of_rows = weft_op2(f, "linear", ones_like(w, c), squares);
    weft_tensor of_columns = weft_op2(f, "linear.dx", ones_like(w, r), squares);
    r = follow(w, r, weft_scale(f, of_rows, 1 / w->columns));
    c = follow(w, c, weft_scale(f, of_columns, 1 / w->rows));
    weft_tensor mean = weft_scale(f, weft_op1(f, "sumsq", weft_op1(f, "sqrt", r)), 1 / w->rows);
    return weft_op2(f, "linear.dw", weft_op2(f, "div", r, mean), c);
}

static weft_tensor rms(work *w, weft_tensor x)
{
    return weft_scale(&w->f, weft_norm(&w->f, x), 1 / sqrt(w->rows * w->columns));
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    work w = {.f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)},
              .param = u->param,
              .rows = 1,
              .columns = 1};
    weft_expr *f = &w.f;
    if (f->st == WEFT_OK)
        f->st = b->shape(b->ctx, u->param, &w.shape);
    for (uint32_t i = 0; f->st == WEFT_OK && i < w.shape.rank; i++)
        *(i + 1 < w.shape.rank ? &w.rows : &w.columns) *= (double)w.shape.axes[i].size;
    const double e = conf->real(conf->ctx, "decay_rate");
    const double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    w.rest = weft_op1(f, "exp", weft_scale(f, weft_op1(f, "log", u->count), -e));
    weft_tensor squares =
        weft_op2(f, "add", weft_op2(f, "mul", u->grad, u->grad), weft_number(f, 1e-30));
    weft_tensor v = second_moment(&w, squares);
    weft_tensor step = weft_op2(f, "div", u->grad, weft_op1(f, "sqrt", v)); /* U */
    weft_tensor over_d = weft_scale(f, rms(&w, step), 1 / conf->real(conf->ctx, "clip_rms"));
    step = weft_op2(f, "div", step, weft_op2(f, "max", weft_number(f, 1), over_d));
    weft_tensor rms_p = weft_op2(f, "max", weft_number(f, 1e-3), rms(&w, u->param));
    weft_tensor alpha = weft_op2(f, "mul", rms_p, u->lr);
    step = weft_op2(f, "mul", step, alpha);
    if (decay != 0)
        step = weft_op2(f, "add", step, weft_op2(f, "mul", u->param, weft_scale(f, u->lr, decay)));
    weft_assign(f, u->param, weft_op2(f, "sub", u->param, step));
    return f->st;
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_MATRIX, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "adafactor",
                                         .help = "Adam's step with factored second moments",
                                         .options = options,
                                         .table = &rule};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.adafactor", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
