/* states: rules whose states have other element types, as a third party would write them.
 *
 * acme.halfadam is Adam with its first moment in bf16, an elementwise rule: 6 bytes of state an
 * element instead of 8. The moment is rounded at every step; the update uses it unrounded.
 *
 * acme.marks is gradient descent that keeps beside each parameter a byte an element, a whole number
 * and a number, which say nothing: what is assigned is what was there. */
#include <math.h>
#include <weft/expr.h>
#include <weft/optim.h>

static weft_tensor mix(weft_expr *f, double beta, weft_tensor old, weft_tensor x)
{
    return weft_op2(f, "add", weft_scale(f, old, beta), weft_scale(f, x, 1 - beta));
}

/* 1 - beta^count */
static weft_tensor begun(weft_expr *f, double beta, weft_tensor count)
{
    weft_tensor left = weft_op1(f, "exp", weft_scale(f, count, log(beta)));
    return weft_op2(f, "sub", weft_number(f, 1), left);
}

static weft_status half(void *module, const weft_conf *conf, const weft_builder *b,
                        const weft_update *u)
{
    (void)conf;
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    const weft_state_args args = {
        .struct_size = sizeof args, .name = "m", .like = u->param, .dtype = WEFT_BF16};
    weft_tensor m = weft_state_of(&f, &args), v = weft_state(&f, "v", u->param);
    weft_tensor first = mix(&f, 0.9, m, u->grad);
    weft_tensor second = mix(&f, 0.999, v, weft_op2(&f, "mul", u->grad, u->grad));
    weft_assign(&f, m, first);
    weft_assign(&f, v, second);
    weft_tensor root =
        weft_op1(&f, "sqrt", weft_op2(&f, "div", second, begun(&f, 0.999, u->count)));
    weft_tensor way = weft_op2(&f, "div", weft_op2(&f, "div", first, begun(&f, 0.9, u->count)),
                               weft_op2(&f, "add", root, weft_number(&f, 1e-8)));
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", way, u->lr)));
    return f.st;
}

static void keep(weft_expr *f, weft_state_args args)
{
    args.struct_size = sizeof args;
    weft_tensor t = weft_state_of(f, &args);
    weft_assign(f, t, t);
}

static weft_status marks(void *module, const weft_conf *conf, const weft_builder *b,
                         const weft_update *u)
{
    (void)conf;
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    keep(&f,
         (weft_state_args){.name = "b", .like = u->param, .dtype = WEFT_U8, .init = "constant:7"});
    keep(&f, (weft_state_args){.name = "i",
                               .like = u->param,
                               .dtype = WEFT_I32,
                               .keep = "",
                               .init = "constant:-123456792"});
    keep(&f, (weft_state_args){.name = "n", .like = u->param, .keep = "", .init = "constant:0.25"});
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", u->grad, u->lr)));
    return f.st;
}

static const weft_rule half_rule = {sizeof half_rule, WEFT_UNIT_ELEMENT, half},
                       marks_rule = {sizeof marks_rule, WEFT_UNIT_TENSOR, marks};
static const weft_component half_adam = {.struct_size = sizeof half_adam,
                                         .iface = "weft.rule/1",
                                         .name = "acme.halfadam",
                                         .help = "Adam with its first moment in bf16",
                                         .table = &half_rule};
static const weft_component marked = {.struct_size = sizeof marked,
                                      .iface = "weft.rule/1",
                                      .name = "acme.marks",
                                      .help = "gradient descent beside bytes and whole numbers",
                                      .table = &marks_rule};
static const weft_component *const components[] = {&half_adam, &marked, NULL};

WEFT_PLUGIN("org.acme.states", "1", "", components, weft_open_host, NULL);
