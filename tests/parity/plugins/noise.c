/* A strategy that draws in a replacement: what each gelu or swiglu gives is dropped with
 * probability 0.1, and uniform numbers of a tenth are added. Its axes are split by tp. */
#include <stdio.h>
#include <string.h>
#include <weft/random.h>
#include <weft/strategy.h>

typedef struct site {
    const weft_opcall *call;
    const char *id;
    uint32_t number;
} site;

static weft_status emit(void *user, const weft_builder *b)
{
    const site *s = user;
    weft_expr e = {b, WEFT_OK};
    char drop[32], add[32];
    snprintf(drop, sizeof drop, "test.drop.%u", s->number);
    snprintf(add, sizeof add, "test.add.%u", s->number);
    weft_tensor y =
        weft_op_with(&e, s->id, s->call->attrs, s->call->nattr, s->call->in, s->call->nin);
    y = weft_dropout(&e, y, 0.1, drop);
    weft_tensor noise = weft_random(&e, WEFT_UNIFORM, add, weft_first_token(&e), y);
    weft_assign(&e, s->call->out[0], weft_op2(&e, "add", y, weft_scale(&e, noise, 0.1)));
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
        site s = {&call, id, number++};
        st = edits->replace(edits->ctx, i, 0, emit, &s);
    }
    return st;
}

static const weft_strategy table = {.struct_size = sizeof table, .edit = edit};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.strategy/1",
                                         .name = "test.noise",
                                         .help = "draws behind each activation",
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.test.noise", "0", "", components, weft_open_host, NULL);
