/* Update rules that are as long as one likes: p = p - lr (m' + m / 2) with m' = 0.9 m + 0.1 g. Each
 * of the three values goes through `length` pairs of products, by 2^k and by 2^-k, which change no
 * bit of it, and so does the count, which is kept as a scalar. `moments` are as many equal m, each
 * a state. One rule is elementwise, one takes whole parameters. */
#include <stdio.h>
#include <weft/expr.h>
#include <weft/optim.h>

static weft_tensor through(weft_expr *f, weft_tensor x, int64_t length)
{
    for (int64_t i = 0; i < length; i++) {
        const double by = (double)(1 << (1 + i % 12));
        x = weft_scale(f, weft_scale(f, x, by), 1 / by);
    }
    return x;
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    const int64_t length = conf->integer(conf->ctx, "length");
    weft_expr f = {b, WEFT_OK};
    weft_tensor count = 0, m = 0, next = 0;
    char name[32];
    (void)module;
    f.st = b->scalar(b->ctx, "test.lengthy", 0, &count);
    weft_assign(&f, count, through(&f, u->count, length));
    for (int64_t i = conf->integer(conf->ctx, "moments"); i-- > 0;) {
        snprintf(name, sizeof name, "m%lld", (long long)i);
        m = weft_state(&f, name, u->param);
        next = weft_op2(&f, "add", weft_scale(&f, m, 0.9), weft_scale(&f, u->grad, 0.1));
        weft_assign(&f, m, next);
    }
    const weft_tensor sum = weft_op2(&f, "add", through(&f, next, length),
                                     through(&f, weft_scale(&f, m, 0.5), length)),
                      rate = through(&f, u->lr, length);
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", sum, rate)));
    return f.st;
}

static const weft_option length = {sizeof length, WEFT_OPT_INT, "length", "0",
                                   "pairs",       NULL,         0,        1e6};
static const weft_option moments = {sizeof moments, WEFT_OPT_INT, "moments", "1",
                                    "states",       NULL,         1,         100};
static const weft_option *const options[] = {&length, &moments, NULL};
static const weft_rule by_element = {sizeof by_element, WEFT_UNIT_ELEMENT, update};
static const weft_rule by_tensor = {sizeof by_tensor, WEFT_UNIT_TENSOR, update};
static const weft_component one = {sizeof one,      0,       "weft.rule/1", "test.lengthy",
                                   "of any length", options, &by_element,   NULL};
static const weft_component two = {sizeof two,      0,       "weft.rule/1", "test.lengthy_whole",
                                   "of whole ones", options, &by_tensor,    NULL};
static const weft_component *const components[] = {&one, &two, NULL};
WEFT_PLUGIN("weft.test.lengthy", "0", "", components, weft_open_host, NULL);
