/* plugins/optim/adam8: AdamW with both moments in 8 bits (after Dettmers et al., "8-bit optimizers
 * via block-wise quantization", 2022).
 *
 *   m = beta1 m + (1 - beta1) g;  z = sqrt(beta2 z z + (1 - beta2) g g)
 *   p = p (1 - lr * weight_decay) - lr * (m / c1) / (z / sqrt(c2) + eps)     c = 1 - beta^count
 *   q = floor(128 + 127 sign(m) sqrt(|m| / s) + d)      kept: m = s t |t|, t = (q - 128) / 127
 *   k = floor(255 sqrt(z / r) + d)                      kept: z = r t t,   t = k / 255
 *
 * The code is the square of a linear one: steps are fine near 0, where most elements are, and the
 * range is 16129 for m and 65025 for the root z of the second moment, as wide as that of a dynamic
 * code and made of elementwise ops alone. The update uses the moments before they are rounded.
 *
 * d, the same for all elements, is the fraction of count times the golden ratio: it is spread
 * evenly over [0, 1), so a code is right on average over steps. Rounding to the nearest would keep
 * a moment where it is once its change in a step is less than half a step of the code.
 *
 * The scales s and r, one each a parameter, are 8-norms. No element exceeds one, so none saturates,
 * and it is at most a few times the largest. Sums of powers are sums of squares, which the core
 * completes over ranks: under any placement a slice is updated as it is, and nothing is gathered.
 * A code is at least 1 for z: with z = 0 a small m would make a large step.
 *
 * State: 2 bytes an element and 8 a parameter, a quarter of Adam's. It loses to Adam where state is
 * small beside activations, and where few elements of a tensor are far beyond all others. */
#include <math.h>
#include <weft/expr.h>
#include <weft/optim.h>

static const weft_option betas = {.struct_size = sizeof betas,
                                  .type = WEFT_OPT_REALS,
                                  .key = "betas",
                                  .dflt = "0.9, 0.95",
                                  .help = "decay rates of the first and the second moment",
                                  .max = 0.999999};
static const weft_option eps = {.struct_size = sizeof eps,
                                .type = WEFT_OPT_REAL,
                                .key = "eps",
                                .dflt = "1e-8",
                                .help = "added to the root of the second moment",
                                .min = 1e-30,
                                .max = 1};
static const weft_option weight_decay = {
    .struct_size = sizeof weight_decay,
    .type = WEFT_OPT_REAL,
    .key = "weight_decay",
    .dflt = "0.1",
    .help = "decoupled weight decay of matrices, times lr each step",
    .max = 1e6};
static const weft_option *const options[] = {&betas, &eps, &weight_decay, NULL};

static weft_tensor mix(weft_expr *f, double beta, weft_tensor old, weft_tensor x)
{
    return weft_op2(f, "add", weft_scale(f, old, beta), weft_scale(f, x, 1 - beta));
}

/* 1 - beta^count */
static weft_tensor begun(weft_expr *f, double beta, weft_tensor count)
{
    if (beta == 0)
        return weft_number(f, 1);
    weft_tensor left = weft_op1(f, "exp", weft_scale(f, count, log(beta)));
    return weft_op2(f, "sub", weft_number(f, 1), left);
}

/* d. Counts are taken modulo 1024, so that fp32 has enough digits of the fraction. */
static weft_tensor dither(weft_expr *f, weft_tensor count)
{
    weft_tensor turns = weft_floor(f, weft_scale(f, count, 1.0 / 1024));
    weft_tensor x = weft_op2(f, "sub", count, weft_scale(f, turns, 1024));
    x = weft_scale(f, x, 0.6180339887498949);
    return weft_op2(f, "sub", x, weft_floor(f, x));
}

/* The 8-norm, of parts of the root mean square: their powers stay within fp32. */
static weft_tensor norm8(weft_expr *f, weft_tensor x, double elements)
{
    weft_tensor rms = weft_scale(f, weft_norm(f, x), 1 / sqrt(elements));
    weft_tensor y = weft_op2(f, "div", x, weft_op2(f, "max", rms, weft_number(f, 1e-30)));
    weft_tensor two = weft_op2(f, "mul", y, y);
    weft_tensor sum = weft_norm(f, weft_op2(f, "mul", two, two)); /* the root of all y^8 */
    return weft_op2(f, "mul", rms, weft_op1(f, "sqrt", weft_op1(f, "sqrt", sum)));
}

/* A moment: its codes and its scale, `name` and `name`s in checkpoints. */
typedef struct coded {
    weft_tensor code, scale;
    double zero, unit, least; /* the codes of 0, of 1 less that, and the smallest */
} coded;

static weft_tensor read_coded(weft_expr *f, const weft_update *u, const char *const names[2],
                              coded *c)
{
    const weft_state_args code = {.struct_size = sizeof code,
                                  .name = names[0],
                                  .like = u->param,
                                  .dtype = WEFT_U8,
                                  .init = c->zero != 0 ? "constant:128" : "zeros"};
    const weft_state_args scale = {
        .struct_size = sizeof scale, .name = names[1], .like = u->param, .keep = ""};
    c->code = weft_state_of(f, &code);
    c->scale = weft_state_of(f, &scale);
    weft_tensor t = weft_cast(f, c->code, WEFT_F32);
    t = weft_scale(f, weft_op2(f, "sub", t, weft_number(f, c->zero)), 1 / c->unit);
    return weft_op2(f, "mul", weft_op2(f, "mul", t, weft_op1(f, "abs", t)), c->scale);
}

static void keep_coded(weft_expr *f, const coded *c, weft_tensor x, double elements, weft_tensor d)
{
    weft_tensor scale = norm8(f, x, elements);
    weft_tensor t = weft_op2(f, "div", x, weft_op2(f, "max", scale, weft_number(f, 1e-30)));
    weft_tensor size = weft_op1(f, "sqrt", weft_op1(f, "abs", t));
    t = weft_scale(f, weft_op2(f, "mul", weft_op1(f, "sign", t), size), c->unit);
    t = weft_floor(f, weft_op2(f, "add", weft_op2(f, "add", t, weft_number(f, c->zero)), d));
    t = weft_op2(f, "max", t, weft_number(f, c->least));
    weft_assign(f, c->scale, scale);
    weft_assign(f, c->code, weft_cast(f, t, WEFT_U8)); /* saturates at 255 */
}

static weft_tensor direction(weft_expr *f, const weft_update *u, const double beta[2], double least)
{
    static const char *const first[] = {"m", "ms"}, *const second[] = {"z", "zs"};
    weft_shape shape;
    double elements = 1;
    if (f->st == WEFT_OK)
        f->st = f->b->shape(f->b->ctx, u->param, &shape);
    for (uint32_t i = 0; f->st == WEFT_OK && i < shape.rank; i++)
        elements *= (double)shape.axes[i].size;
    coded cm = {.zero = 128, .unit = 127}, cz = {.unit = 255, .least = 1};
    weft_tensor d = dither(f, u->count);
    weft_tensor m = mix(f, beta[0], read_coded(f, u, first, &cm), u->grad);
    weft_tensor z = read_coded(f, u, second, &cz);
    z = mix(f, beta[1], weft_op2(f, "mul", z, z), weft_op2(f, "mul", u->grad, u->grad));
    z = weft_op1(f, "sqrt", z);
    keep_coded(f, &cm, m, elements, d);
    keep_coded(f, &cz, z, elements, d);
    weft_tensor root = weft_op1(f, "sqrt", begun(f, beta[1], u->count));
    weft_tensor below = weft_op2(f, "add", weft_op2(f, "div", z, root), weft_number(f, least));
    return weft_op2(f, "div", weft_op2(f, "div", m, begun(f, beta[0], u->count)), below);
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    double beta[3];
    if (conf->reals(conf->ctx, "betas", beta, 3) != 2)
        return b->fail(b->ctx, WEFT_USAGE,
                       "optim.betas must be two numbers, for the first and the second moment, such "
                       "as 0.9, 0.95");
    weft_expr e = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)},
              *f = &e;
    const double decay = u->flags & WEFT_PARAM_MATRIX ? conf->real(conf->ctx, "weight_decay") : 0;
    weft_tensor way = direction(f, u, beta, conf->real(conf->ctx, "eps"));
    if (decay != 0)
        way = weft_op2(f, "add", way, weft_scale(f, u->param, decay));
    weft_assign(f, u->param, weft_op2(f, "sub", u->param, weft_op2(f, "mul", way, u->lr)));
    return f->st;
}

static const weft_rule rule = {sizeof rule, WEFT_UNIT_TENSOR, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "adam8",
                                         .help = "AdamW with both moments in 8 bits",
                                         .options = options,
                                         .table = &rule};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.adam8", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
