/* Update rules with impossible requests: each is sgd, p = p - g, plus one request. */
#include <weft/optim.h>

static weft_status step(const weft_builder *b, const weft_update *u)
{
    weft_tensor in[2] = {u->param, u->grad}, out;
    weft_status st = b->op(b->ctx, "sub", NULL, 0, in, 2, 0, &out, 1);
    return st != WEFT_OK ? st : b->assign(b->ctx, u->param, out, 0);
}

/* Add a state "v" and assign the gradient to it. */
static weft_status keep(const weft_builder *b, const weft_update *u, weft_tensor like,
                        uint32_t dtype, const char *axes)
{
    weft_tensor v;
    const weft_state_args args = {sizeof args, .name = "v", .like = like, .dtype = dtype,
                                  .keep = axes};
    weft_status st = b->state(b->ctx, &args, &v);
    if (st == WEFT_OK)
        st = b->assign(b->ctx, v, u->grad, 0);
    return st != WEFT_OK ? st : step(b, u);
}

static weft_status bytes(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    return keep(b, u, u->param, WEFT_U8, NULL);
}

static weft_status factored(void *m, const weft_conf *c, const weft_builder *b,
                            const weft_update *u)
{
    (void)m, (void)c;
    return keep(b, u, u->param, 0, "ffn");
}

static weft_status single(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    return keep(b, u, u->lr, 0, NULL);
}

/* Assign to scalar `name` the result of `id` on the gradient or, without `id`, `value`. */
static weft_status set_scalar(const weft_builder *b, const weft_update *u, const char *name,
                              const char *id, double value)
{
    weft_tensor to, from = 0;
    weft_status st = b->scalar(b->ctx, name, 0, &to);
    if (st == WEFT_OK && id)
        st = b->op(b->ctx, id, NULL, 0, &u->grad, 1, 0, &from, 1);
    else if (st == WEFT_OK)
        st = b->constant(b->ctx, value, 0, &from);
    return st != WEFT_OK ? st : b->assign(b->ctx, to, from, 0);
}

static weft_status rate(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    weft_status st = set_scalar(b, u, "lr", NULL, 1);
    return st != WEFT_OK ? st : step(b, u);
}

static weft_status norms(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    weft_status st = set_scalar(b, u, "test.norm", "sumsq", 0);
    return st != WEFT_OK ? st : step(b, u);
}

static weft_status by_flags(void *m, const weft_conf *c, const weft_builder *b,
                            const weft_update *u)
{
    (void)m, (void)c;
    weft_status st = set_scalar(b, u, "test.kind", NULL, u->flags & WEFT_PARAM_MATRIX ? 2 : 1);
    return st != WEFT_OK ? st : step(b, u);
}

static weft_status twice(void *m, const weft_conf *c, const weft_builder *b, const weft_update *u)
{
    (void)m, (void)c;
    weft_status st = set_scalar(b, u, "test.twice", NULL, 1);
    if (st == WEFT_OK)
        st = set_scalar(b, u, "test.twice", NULL, 2);
    return st != WEFT_OK ? st : step(b, u);
}

#define RULE(word, unit)                                                                           \
    static const weft_rule rule_##word##unit = {sizeof rule_##word##unit, unit, word};             \
    static const weft_component component_##word##unit = {sizeof component_##word##unit,           \
                                                          0,                                       \
                                                          "weft.rule/1",                           \
                                                          #word "." #unit,                         \
                                                          "demands",                               \
                                                          NULL,                                    \
                                                          &rule_##word##unit,                      \
                                                          NULL}
RULE(bytes, 1);
RULE(bytes, 2);
RULE(factored, 1);
RULE(factored, 2);
RULE(single, 1);
RULE(rate, 1);
RULE(rate, 2);
RULE(norms, 2);
RULE(by_flags, 1);
RULE(by_flags, 2);
RULE(twice, 1);

static const weft_component *const components[] = {
    &component_bytes1,    &component_bytes2,    &component_factored1, &component_factored2,
    &component_single1,   &component_rate1,     &component_rate2,     &component_norms2,
    &component_by_flags1, &component_by_flags2, &component_twice1,    NULL};

WEFT_PLUGIN("weft.demands", "0", "", components, weft_open_host, NULL);
