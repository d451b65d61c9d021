/* rowcol: Adam with the factored second moment of Adafactor (Shazeer, Stern, "Adafactor:
 * adaptive learning rates with sublinear memory cost", 2018), as a third party would write it.
 *
 *   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) (g^2 + 1e-30)
 *   r = row sums of v;  c = column sums of v;  s = sum of r
 *   u = m / (1 - b1^count) / (sqrt(r c / s) + 1e-6)
 *   p = p - lr * u / max(1, rms(u) / clip)
 *
 * Rows and columns are the last two axes: a projection with an axis for heads has a sum of its own
 * for each head. A parameter with one axis is divided by the root of v / (1 - b2^count) alone. The
 * unit is the matrix, since a part of a row has another sum.
 *
 * Sums are linear: the row sums of the moment are the moment of the row sums. So keeping r and c
 * instead of v gives the same numbers with less memory; v is kept here, which any builder can do.
 */
#include <math.h>
#include <weft/expr.h>
#include <weft/optim.h>

static const weft_option clip_option = {.struct_size = sizeof clip_option,
                                        .type = WEFT_OPT_REAL,
                                        .key = "clip",
                                        .dflt = "1",
                                        .help = "largest root mean square of a direction",
                                        .max = 1000};
static const weft_option *const options[] = {&clip_option, NULL};

static const double b1 = 0.9, b2 = 0.999;

/* state = beta state + (1 - beta) x; returns the new value */
static weft_tensor moment(weft_expr *f, const char *name, weft_tensor like, double beta,
                          weft_tensor x)
{
    weft_tensor old = weft_state(f, name, like);
    weft_tensor now = weft_op2(f, "add", weft_scale(f, old, beta), weft_scale(f, x, 1 - beta));
    weft_assign(f, old, now);
    return now;
}

/* x / (1 - beta^count) */
static weft_tensor unbiased(weft_expr *f, weft_tensor x, double beta, weft_tensor count)
{
    weft_tensor left = weft_op1(f, "exp", weft_scale(f, count, log(beta)));
    return weft_op2(f, "div", x, weft_op2(f, "sub", weft_number(f, 1), left));
}

/* r c / s, of the shape of v. */
static weft_tensor factored(weft_expr *f, weft_tensor v, const char *rows, const char *columns)
{
    weft_tensor r = weft_sum_axis(f, v, columns), c = weft_sum_axis(f, v, rows);
    weft_tensor share =
        weft_op2(f, "div", r, weft_broadcast(f, weft_sum_axis(f, r, rows), r, rows));
    return weft_op2(f, "mul", weft_broadcast(f, share, v, columns), weft_broadcast(f, c, v, rows));
}

/* u / max(1, rms(u) / clip) */
static weft_tensor clipped(weft_expr *f, weft_tensor u, const weft_shape *s, double clip)
{
    double elements = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        elements *= (double)s->axes[i].size;
    weft_tensor rms = weft_scale(f, weft_norm(f, u), 1 / sqrt(elements) / clip);
    return weft_op2(f, "div", u, weft_op2(f, "max", rms, weft_number(f, 1)));
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    weft_shape s = {.rank = 0};
    if (f.st == WEFT_OK)
        f.st = b->shape(b->ctx, u->param, &s);
    weft_tensor square = weft_op2(&f, "mul", u->grad, u->grad);
    weft_tensor m = moment(&f, "m", u->param, b1, u->grad);
    weft_tensor v =
        moment(&f, "v", u->param, b2, weft_op2(&f, "add", square, weft_number(&f, 1e-30)));
    weft_tensor by = unbiased(&f, v, b2, u->count);
    if (s.rank > 1)
        by = factored(&f, by, s.axes[s.rank - 2].name, s.axes[s.rank - 1].name);
    weft_tensor root = weft_op2(&f, "add", weft_op1(&f, "sqrt", by), weft_number(&f, 1e-6));
    weft_tensor way = weft_op2(&f, "div", unbiased(&f, m, b1, u->count), root);
    way = clipped(&f, way, &s, conf->real(conf->ctx, "clip"));
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", way, u->lr)));
    return f.st;
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_MATRIX, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "acme.rowcol",
                                         .help = "Adam with a factored second moment",
                                         .options = options,
                                         .table = &rule};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.rowcol", "1", "", components, weft_open_host, NULL);
