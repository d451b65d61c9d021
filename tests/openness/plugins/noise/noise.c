/* noise.c: a strategy from outside that draws random numbers. Each gelu or swiglu is replaced by
 *
 *   y = dropout(gelu(x), 0.1) + 0.1 u
 *
 * with uniform u. Numbers depend on the token and the place alone: they are the same on any number
 * of ranks, also where tp splits y. */
#include <stdio.h>
#include <string.h>
#include <weft/random.h>
#include <weft/strategy.h>

typedef struct site {
    const char *id;
    const weft_opcall *call;
    uint32_t number; /* of the op: each draws from streams of its own */
} site;

static weft_status emit(void *user, const weft_builder *b)
{
    const site *s = user;
    const weft_opcall *call = s->call;
    weft_expr e = {b, WEFT_OK};
    char drop[32], noise[32];
    snprintf(drop, sizeof drop, "acme.drop.%u", s->number);
    snprintf(noise, sizeof noise, "acme.noise.%u", s->number);
    weft_tensor y = weft_op_with(&e, s->id, call->attrs, call->nattr, call->in, call->nin);
    y = weft_dropout(&e, y, 0.1, drop);
    weft_tensor u = weft_random(&e, WEFT_UNIFORM, noise, weft_first_token(&e), y);
    weft_assign(&e, call->out[0], weft_op2(&e, "add", y, weft_scale(&e, u, 0.1)));
    return e.st;
}

static weft_status edit(void *module, const weft_conf *conf, uint32_t phase, const weft_view *view,
                        const weft_edits *edits)
{
    (void)module, (void)conf;
    weft_status st = WEFT_OK;
    const uint32_t n = phase == WEFT_PHASE_SPLIT ? view->ops(view->ctx) : 0;
    for (uint32_t i = 0, number = 0; st == WEFT_OK && i < n; i++) {
        const char *id;
        weft_opcall call = {.struct_size = sizeof call};
        st = view->op(view->ctx, i, &id, &call);
        if (st != WEFT_OK || (strcmp(id, "gelu") && strcmp(id, "swiglu")))
            continue;
        site s = {id, &call, number++};
        st = edits->replace(edits->ctx, i, 0, emit, &s);
    }
    return st;
}

static const weft_strategy strategy = {.struct_size = sizeof strategy, .edit = edit};
static const weft_component noise = {.struct_size = sizeof noise,
                                     .iface = "weft.strategy/1",
                                     .name = "acme.noise",
                                     .help = "noise behind each activation",
                                     .table = &strategy};
static const weft_component *const components[] = {&noise, NULL};
WEFT_PLUGIN("org.acme.noise", "1", "", components, weft_open_host, NULL);
