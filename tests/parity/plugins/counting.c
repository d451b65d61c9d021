/* Update rules with a scalar of their own, which counts steps: p = p - lr * g / sqrt(step). One is
 * elementwise, one takes whole parameters and scales by a norm. */
#include <weft/optim.h>

static weft_status op(const weft_builder *b, const char *id, weft_tensor x, weft_tensor y,
                      weft_tensor *out)
{
    const weft_tensor in[] = {x, y};
    return b->op(b->ctx, id, NULL, 0, in, y ? 2 : 1, 0, out, 1);
}

static weft_status next_step(const weft_builder *b, weft_tensor *next)
{
    weft_tensor step, one;
    weft_status st = b->scalar(b->ctx, "test.step", 0, &step);
    if (st == WEFT_OK)
        st = b->constant(b->ctx, 1, 0, &one);
    if (st == WEFT_OK)
        st = op(b, "add", step, one, next);
    weft_tensor quiet = 0;
    if (st == WEFT_OK)
        st = b->assign(b->ctx, step, *next, 0);
    if (st == WEFT_OK) /* without a dot: the metrics do not have it */
        st = b->scalar(b->ctx, "quiet", 0, &quiet);
    return st != WEFT_OK ? st : b->assign(b->ctx, quiet, *next, 0);
}

static weft_status move(const weft_builder *b, const weft_update *u, weft_tensor by)
{
    weft_tensor step, root, rate, change, p;
    weft_status st = next_step(b, &step);
    if (st == WEFT_OK)
        st = op(b, "sqrt", step, 0, &root);
    if (st == WEFT_OK)
        st = op(b, "div", u->lr, root, &rate);
    if (st == WEFT_OK)
        st = op(b, "mul", by, rate, &change);
    if (st == WEFT_OK)
        st = op(b, "sub", u->param, change, &p);
    return st != WEFT_OK ? st : b->assign(b->ctx, u->param, p, 0);
}

static weft_status elements(void *m, const weft_conf *c, const weft_builder *b,
                            const weft_update *u)
{
    (void)m, (void)c;
    return move(b, u, u->grad);
}

static weft_status tensors(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    weft_tensor square, size, least, by = 0;
    weft_status st = b->op(b->ctx, "sumsq", NULL, 0, &u->grad, 1, 0, &square, 1);
    if (st == WEFT_OK)
        st = b->constant(b->ctx, 1e-3, 0, &least);
    if (st == WEFT_OK)
        st = op(b, "add", square, least, &square);
    if (st == WEFT_OK)
        st = op(b, "sqrt", square, 0, &size);
    if (st == WEFT_OK)
        st = op(b, "div", u->grad, size, &by);
    return st != WEFT_OK ? st : move(b, u, by);
}

static const weft_rule by_element = {sizeof by_element, WEFT_UNIT_ELEMENT, elements};
static const weft_rule by_tensor = {sizeof by_tensor, WEFT_UNIT_TENSOR, tensors};
static const weft_component one = {sizeof one,         0,    "weft.rule/1", "test.counting",
                                   "counts its steps", NULL, &by_element,   NULL};
static const weft_component two = {
    sizeof two, 0,          "weft.rule/1", "test.counting_norms", "counts its steps, takes norms",
    NULL,       &by_tensor, NULL};
static const weft_component *const components[] = {&one, &two, NULL};

WEFT_PLUGIN("weft.test.counting", "0", "", components, weft_open_host, NULL);
