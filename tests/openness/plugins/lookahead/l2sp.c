/* l2sp: gradient descent that pulls each parameter towards its first value (L2-SP, Li et al.,
 * 2018), for fine-tuning: the first value is a state that begins as its parameter.
 *
 *   p = p - lr * (g + pull * (p - start)) */
#include <weft/expr.h>
#include <weft/optim.h>

static const weft_option pull = {.struct_size = sizeof pull,
                                 .type = WEFT_OPT_REAL,
                                 .key = "pull",
                                 .dflt = "0.1",
                                 .help = "how much it pulls",
                                 .max = 1e6};
static const weft_option *const options[] = {&pull, NULL};

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    const weft_state_args args = {
        .struct_size = sizeof args, .name = "start", .like = u->param, .init = "copy"};
    weft_expr f = {b, weft_check_args((const weft_host *)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    weft_tensor start = 0;
    if (f.st == WEFT_OK)
        f.st = b->state(b->ctx, &args, &start);
    const weft_tensor away = weft_op2(&f, "sub", u->param, start);
    const weft_tensor pulled =
        weft_op2(&f, "mul", away, weft_number(&f, conf->real(conf->ctx, "pull")));
    const weft_tensor g = weft_op2(&f, "add", u->grad, pulled);
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", g, u->lr)));
    weft_assign(&f, start, start);
    return f.st;
}

static const weft_rule table = {sizeof table, WEFT_UNIT_ELEMENT, update};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.rule/1",
                                         .name = "acme.l2sp",
                                         .help = "gradient descent towards the first weights",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("org.acme.l2sp", "1", "", components, weft_open_host, NULL);
