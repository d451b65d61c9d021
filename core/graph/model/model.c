/* graph/model/model.c: the table of families, checks that hold for all, and the steps they share.
 */
#include "graph/model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "config/constraints.h"
#include "graph/model/family.h"

static const model_family *const families[] = {&model_gpt2, &model_llama, NULL};

static weft_status unknown_family(const char *name)
{
    char list[256] = "";
    for (size_t i = 0; families[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", families[i]->name);
    }
    return fail(WEFT_USAGE, "model.family = %s is no family of models that this version has: %s",
                name ? name : "(none)", list);
}

/* Products of three of these and a number of layers stay far below 2^63. */
static weft_status check_sizes(const model_options *o)
{
    const struct {
        const char *key;
        int64_t value, most;
    } size[] = {
        {"model.layers", o->layers, 1 << 16},
        {"model.heads", o->heads, 1 << 20},
        {"model.embed", o->embed, 1 << 20},
        {"model.ffn", o->ffn, 1 << 22},
        {"model.context", o->context, 1 << 24},
        {"model.vocab", o->vocab, 1 << 24},
        {"train.sequence", o->sequence, 1 << 24},
        {"train.microbatch", o->batch, 1 << 30},
        {"model.kv_heads", o->kv_heads ? o->kv_heads : 1, 1 << 20},
    };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (size[i].value < 1 || size[i].value > size[i].most)
            return fail(WEFT_USAGE, "%s is %lld; it must be from 1 to %lld", size[i].key,
                        (long long)size[i].value, (long long)size[i].most);
    return WEFT_OK;
}

static weft_status check_shape(const model_options *o)
{
    if (o->embed % o->heads)
        return combine_refuse(COMBINE_HEADS, NULL, NULL,
                              (combine_fact[]){{"model.heads", o->heads, NULL},
                                               {"model.embed", o->embed, NULL},
                                               {0}});
    if (o->sequence > o->context)
        return combine_refuse(COMBINE_SEQUENCE, NULL, NULL,
                              (combine_fact[]){{"train.sequence", o->sequence, NULL},
                                               {"model.context", o->context, NULL},
                                               {0}});
    if (o->heads % (o->kv_heads ? o->kv_heads : o->heads))
        return combine_refuse(COMBINE_KV_HEADS, NULL, NULL,
                              (combine_fact[]){{"model.heads", o->heads, NULL},
                                               {"model.kv_heads", o->kv_heads, NULL},
                                               {0}});
    char dropout[32];
    snprintf(dropout, sizeof dropout, "%g", o->dropout);
    if (o->dropout != 0)
        return combine_refuse(COMBINE_DROPOUT, NULL, NULL,
                              (combine_fact[]){{"model.dropout", 0, dropout}, {0}});
    return WEFT_OK;
}

/* The family and the options with what they leave open filled in. */
static weft_status find_family(const model_options *asked, model_options *o,
                               const model_family **out)
{
    size_t i = 0;
    while (families[i] && (!asked->family || strcmp(families[i]->name, asked->family)))
        i++;
    if (!families[i])
        return unknown_family(asked->family);
    weft_status st = check_sizes(asked);
    if (!st)
        st = check_shape(asked);
    if (st)
        return st;
    *o = *asked;
    o->kv_heads = o->kv_heads ? o->kv_heads : o->heads;
    o->tied = o->tied == MODEL_TIED_AUTO ? families[i]->tied : o->tied;
    o->rope_theta = o->rope_theta != 0 ? o->rope_theta : MODEL_ROPE_THETA;
    o->norm_eps = o->norm_eps != 0 ? o->norm_eps : 1e-5;
    st = families[i]->check(o);
    if (!st)
        *out = families[i];
    return st;
}

weft_status model_build(const weft_builder *b, const model_options *asked, weft_tensor *out)
{
    const model_family *family;
    model_options o;
    weft_status st = find_family(asked, &o, &family);
    return st ? st : family->build(b, &o, out);
}

int64_t model_params(const model_options *asked)
{
    const model_family *family;
    model_options o;
    return find_family(asked, &o, &family) ? 0 : family->params(&o);
}

void make_block(making *m, const char *name)
{
    if (!m->st)
        m->st = m->b->block(m->b->ctx, name);
}

weft_tensor make_input(making *m, const char *name)
{
    weft_shape shape = {.dtype = WEFT_I32, .rank = 1};
    shape.axes[0] = (weft_axis){"tokens", m->o->batch * m->o->sequence};
    weft_tensor out = 0;
    if (!m->st)
        m->st = m->b->input(m->b->ctx, name, &shape, &out);
    return out;
}

weft_tensor make_param(making *m, const char *name, uint32_t rank, const weft_axis *axes,
                       const char *init)
{
    char full[WEFT_MAX_NAME];
    snprintf(full, sizeof full, "%s%s", m->prefix, name);
    weft_shape shape = {.rank = rank};
    memcpy(shape.axes, axes, rank * sizeof *axes);
    uint32_t flags = strncmp(init, "normal", 6) ? 0 : WEFT_PARAM_MATRIX;
    if (rank == 2 && (!strcmp(axes[0].name, "vocab") || !strcmp(axes[0].name, "context")))
        flags |= WEFT_PARAM_PAD; /* rows that are looked up, or whose logits the loss leaves out */
    weft_tensor out = 0;
    if (!m->st)
        m->st = m->b->param(m->b->ctx, full, &shape, init, flags, &out);
    return out;
}

weft_tensor make_op(making *m, const char *id, const weft_attr *attrs, uint32_t nattr,
                    const weft_tensor in[MAKE_INPUTS], uint32_t nout)
{
    uint32_t nin = 0;
    while (nin < MAKE_INPUTS && in[nin])
        nin++;
    weft_tensor out[WEFT_MAX_OPERANDS] = {0};
    if (!m->st)
        m->st = m->b->op(m->b->ctx, id, attrs, nattr, in, nin, out, nout);
    return out[0];
}

weft_tensor make_linear(making *m, weft_tensor x, weft_tensor w, weft_tensor b)
{
    return make_op(m, "linear", NULL, 0, (weft_tensor[MAKE_INPUTS]){x, w, b}, 1);
}

void make_layer(making *m, int64_t i, char prefix[MAKE_PREFIX])
{
    char block[MAKE_PREFIX - 1];
    snprintf(block, sizeof block, "block.%lld", (long long)i);
    snprintf(prefix, MAKE_PREFIX, "%s.", block);
    m->prefix = prefix;
    make_block(m, block);
}

void make_small_normal(const model_options *o, char init[48])
{
    snprintf(init, 48, "normal:%.17g", 0.02 / sqrt(2.0 * (double)o->layers));
}

weft_tensor make_loss(making *m, weft_tensor logits)
{
    weft_attr weight = {.key = "weight", .f = m->o->weight};
    weft_tensor scale = 0, out[2] = {0};
    if (m->o->want == MODEL_LOGITS)
        return logits;
    weft_tensor targets = make_input(m, "targets");
    if (m->o->want == MODEL_EVAL)
        return make_op(m, "softmax_xent.loss", &weight, 1,
                       (weft_tensor[MAKE_INPUTS]){logits, targets}, 1);
    if (!m->st)
        m->st = m->b->scalar(m->b->ctx, "scale", &scale);
    if (!m->st)
        m->st = m->b->op(m->b->ctx, "softmax_xent", &weight, 1,
                         (weft_tensor[]){logits, targets, scale}, 3, out, 2);
    return out[1];
}
