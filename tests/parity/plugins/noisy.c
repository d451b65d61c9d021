/* An update rule that draws: p = p - lr (g + noise / step), with normal noise for each element. A
 * rule that takes single elements may not, and says so. */
#include <weft/optim.h>
#include <weft/random.h>

static weft_status noisy(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    weft_expr e = {b, WEFT_OK};
    weft_tensor step = 0;
    e.st = b->scalar(b->ctx, "step", 0, &step);
    weft_tensor noise = weft_random(&e, WEFT_NORMAL, "noise", step, u->grad);
    weft_tensor by = weft_op2(&e, "add", u->grad, weft_op2(&e, "div", noise, step));
    weft_assign(&e, u->param, weft_op2(&e, "sub", u->param, weft_op2(&e, "mul", by, u->lr)));
    return e.st;
}

static const weft_rule by_tensor = {sizeof by_tensor, WEFT_UNIT_TENSOR, noisy};
static const weft_rule by_element = {sizeof by_element, WEFT_UNIT_ELEMENT, noisy};
static const weft_component one = {.struct_size = sizeof one,
                                   .iface = "weft.rule/1",
                                   .name = "test.noisy",
                                   .help = "adds random numbers",
                                   .table = &by_tensor};
static const weft_component two = {.struct_size = sizeof two,
                                   .iface = "weft.rule/1",
                                   .name = "test.noisy_elements",
                                   .help = "may not do the same",
                                   .table = &by_element};
static const weft_component *const components[] = {&one, &two, NULL};

WEFT_PLUGIN("weft.test.noisy", "0", "", components, weft_open_host, NULL);
