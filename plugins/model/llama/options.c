/* options.c: the keys of [model] of family llama; see llama.h. */
#include "llama.h"

#include <string.h>

static const weft_option kv_heads = LAYERS_KEY(
    WEFT_OPT_AUTO_INT, "kv_heads", "auto",
    "heads of keys and values; heads is a multiple of it; auto: as many as heads", NULL, 1, 65536);
static const weft_option head_dim = LAYERS_KEY(
    WEFT_OPT_AUTO_INT, "head_dim", "auto",
    "llama: elements of a head, an even number; auto: embed divided by heads", NULL, 2, 65536);
static const weft_option embed = LAYERS_KEY(
    WEFT_OPT_INT, "embed", "768",
    "width of the residual stream; in llama each head has an even number of its elements", NULL, 1,
    1048576);
static const weft_option tied =
    LAYERS_KEY(WEFT_OPT_CHOICE, "tied", "auto",
               "the head shares the weights of the embedding; auto: in gpt2 on, in llama off",
               "auto|on|off", 0, 0);
static const weft_option activation =
    LAYERS_KEY(WEFT_OPT_CHOICE, "activation", "silu",
               "llama: what the gate of the feed-forward part goes through; gelu_tanh: GELU by its "
               "tanh formula",
               "silu|gelu_tanh", 0, 0);
static const weft_option qkv_bias =
    LAYERS_KEY(WEFT_OPT_BOOL, "qkv_bias", "off",
               "llama: queries, keys and values have biases, as in Qwen2", NULL, 0, 0);
static const weft_option qk_norm =
    LAYERS_KEY(WEFT_OPT_BOOL, "qk_norm", "off",
               "llama: each head of queries and keys is normalised before it is rotated, as in "
               "Qwen3",
               NULL, 0, 0);
static const weft_option rope_theta =
    LAYERS_KEY(WEFT_OPT_REAL, "rope_theta", "10000",
               "llama: base of the angles that encode positions", NULL, 1e-6, 1e18);
static const weft_option rope_scaling =
    LAYERS_KEY(WEFT_OPT_CHOICE, "rope_scaling", "none",
               "llama: for sequences longer than those of a first training; linear: all angles "
               "are divided by rope_factor; llama3: the slow ones",
               "none|linear|llama3", 0, 0);
static const weft_option rope_factor = LAYERS_KEY(
    WEFT_OPT_REAL, "rope_factor", "0",
    "with rope_scaling, which needs it: what angles are divided by, 1 or more", NULL, 0, 1e6);
static const weft_option rope_original =
    LAYERS_KEY(WEFT_OPT_INT, "rope_original", "0",
               "with rope_scaling = llama3, which needs it: the sequence of the first training",
               NULL, 0, 16777216);
static const weft_option rope_low =
    LAYERS_KEY(WEFT_OPT_REAL, "rope_low", "0",
               "with rope_scaling = llama3, which needs it: angles that turn less often in "
               "rope_original tokens are divided entirely; Llama 3: 1",
               NULL, 0, 1e6);
static const weft_option rope_high =
    LAYERS_KEY(WEFT_OPT_REAL, "rope_high", "0",
               "with rope_scaling = llama3, which needs it: angles that turn as often or more stay "
               "as they are; Llama 3: 4",
               NULL, 0, 1e6);

const weft_option *const llama_keys[] = {&layers_key_layers,
                                         &layers_key_heads,
                                         &kv_heads,
                                         &head_dim,
                                         &embed,
                                         &layers_key_ffn,
                                         &layers_key_context,
                                         &layers_key_vocab,
                                         &tied,
                                         &activation,
                                         &qkv_bias,
                                         &qk_norm,
                                         &rope_theta,
                                         &rope_scaling,
                                         &rope_factor,
                                         &rope_original,
                                         &rope_low,
                                         &rope_high,
                                         &layers_key_norm_eps,
                                         &layers_key_dropout,
                                         NULL};

void llama_read(const weft_conf *c, llama_options *out)
{
    const char *scaling = c->text(c->ctx, "rope_scaling");
    *out = (llama_options){.gelu = strcmp(c->text(c->ctx, "activation"), "silu") != 0,
                           .qkv_bias = c->integer(c->ctx, "qkv_bias") != 0,
                           .qk_norm = c->integer(c->ctx, "qk_norm") != 0,
                           .rope = {.factor = 1}};
    layers_read(c, false, &out->o);
    out->o.head_dim = c->integer(c->ctx, "head_dim");
    out->scaling = strcmp(scaling, "none") != 0;
    if (out->scaling)
        out->rope.factor = c->real(c->ctx, "rope_factor");
    out->stretched = !strcmp(scaling, "llama3");
    if (out->stretched)
        out->rope = (llama_rope){out->rope.factor, c->real(c->ctx, "rope_low"),
                                 c->real(c->ctx, "rope_high"), c->integer(c->ctx, "rope_original")};
}

static weft_status check_rope(const weft_host *host, const llama_options *o)
{
    const llama_rope *r = &o->rope;
    if (o->scaling && r->factor < 1)
        return layers_refuse(host,
                             "model.rope_factor is %g: rope_scaling needs a number of 1 or "
                             "more",
                             r->factor);
    if (o->stretched && !r->original)
        return layers_refuse(host, "model.rope_original is 0: rope_scaling = llama3 needs the "
                                   "sequence of the first training, such as 8192");
    if (o->stretched && !(r->low > 0 && r->low < r->high))
        return layers_refuse(host,
                             "model.rope_low is %g and model.rope_high is %g: rope_scaling = "
                             "llama3 needs 0 < rope_low < rope_high, such as 1 and 4",
                             r->low, r->high);
    return WEFT_OK;
}

weft_status llama_check(const weft_host *host, const weft_data_info *data, llama_options *o)
{
    const bool given = o->o.head_dim != 0;
    weft_status st = layers_check(host, data, &o->o);
    if (st == WEFT_OK && o->o.head_dim % 2 && given)
        st = layers_refuse(host,
                           "model.head_dim is %lld: family llama rotates the elements of a "
                           "head in pairs, so that must be even",
                           (long long)o->o.head_dim);
    else if (st == WEFT_OK && o->o.head_dim % 2)
        st = layers_refuse(host,
                           "model.embed is %lld and model.heads is %lld, which gives each head "
                           "%lld elements: family llama rotates them in pairs, so that must be "
                           "even",
                           (long long)o->o.embed, (long long)o->o.heads, (long long)o->o.head_dim);
    return st != WEFT_OK ? st : check_rope(host, o);
}

int64_t llama_head_dim(const layers_options *o)
{
    return o->head_dim ? o->head_dim : o->embed / o->heads;
}

uint64_t llama_params(const llama_options *x)
{
    const layers_options *o = &x->o;
    const int64_t e = o->embed, d = llama_head_dim(o), q = d * o->heads, kv = d * o->kv_heads;
    int64_t block = 2 * e + 2 * e * q + 2 * e * kv + 3 * e * o->ffn;
    block += x->qkv_bias ? q + 2 * kv : 0;
    block += x->qk_norm ? 2 * d : 0;
    return (uint64_t)((o->tied ? 1 : 2) * o->vocab * e + o->layers * block + e);
}
