/* graph/model/gpt2.c: the GPT-2 family.
 *
 * Token and position embeddings are added; every block is
 *
 *   x = x + attn.out (attention (attn.qkv (ln1 x)))
 *   x = x + ffn.out (gelu (ffn.in (ln2 x)))
 *
 * and the head is a last normalisation and a product with the vocabulary, whose weight is that of
 * the token embedding when tied. The two projections into the residual stream have their bias added
 * after the product, so that tensor parallelism can cut the product (op_misc.c). */
#include <stdio.h>

#include "base/err.h"
#include "config/constraints.h"
#include "graph/model/family.h"

static weft_axis axis(const char *name, int64_t size)
{
    return (weft_axis){name, size};
}

static weft_tensor layernorm(making *m, const char *name, weft_tensor x)
{
    char gain[32], bias[32];
    weft_axis embed = axis("embed", m->o->embed);
    weft_attr eps = {.key = "eps", .f = m->o->norm_eps};
    snprintf(gain, sizeof gain, "%s.g", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    weft_tensor g = make_param(m, gain, 1, &embed, "ones");
    weft_tensor b = make_param(m, bias, 1, &embed, "zeros");
    return make_op(m, "layernorm", &eps, 1, (weft_tensor[MAKE_INPUTS]){x, g, b}, 3);
}

static weft_tensor embed_tokens(making *m, weft_tensor *table)
{
    const weft_axis embed = axis("embed", m->o->embed);
    make_block(m, "embed");
    *table =
        make_param(m, "embed.tok.w", 2, (weft_axis[]){axis("vocab", m->o->vocab), embed}, NORMAL);
    weft_tensor places = make_param(m, "embed.pos.w", 2,
                                    (weft_axis[]){axis("context", m->o->context), embed}, NORMAL);
    weft_tensor tokens = make_input(m, "tokens"), positions = make_input(m, "positions");
    weft_tensor t = make_op(m, "embedding", NULL, 0, (weft_tensor[MAKE_INPUTS]){*table, tokens}, 1);
    weft_tensor p =
        make_op(m, "embedding", NULL, 0, (weft_tensor[MAKE_INPUTS]){places, positions}, 1);
    return make_op(m, "add", NULL, 0, (weft_tensor[MAKE_INPUTS]){t, p}, 1);
}

static weft_tensor attention(making *m, weft_tensor x, const char *init)
{
    const model_options *o = m->o;
    const weft_axis embed = axis("embed", o->embed);
    const weft_axis qkv[] = {axis("three", 3), axis("heads", o->heads),
                             axis("head_dim", o->embed / o->heads), embed};
    const weft_attr attrs[] = {{.key = "sequence", .i = o->sequence}, {.key = "causal", .i = 1}};
    weft_tensor y = layernorm(m, "ln1", x);
    weft_tensor w = make_param(m, "attn.qkv.w", 4, qkv, NORMAL);
    weft_tensor b = make_param(m, "attn.qkv.b", 3, qkv, "zeros");
    y = make_linear(m, y, w, b);
    y = make_op(m, "attention", attrs, 2, (weft_tensor[MAKE_INPUTS]){y}, 2);
    w = make_param(m, "attn.out.w", 3, (weft_axis[]){embed, qkv[1], qkv[2]}, init);
    b = make_param(m, "attn.out.b", 1, &embed, "zeros");
    y = make_linear(m, y, w, 0);
    return make_op(m, "bias_residual", NULL, 0, (weft_tensor[MAKE_INPUTS]){y, b, x}, 1);
}

static weft_tensor feed_forward(making *m, weft_tensor x, const char *init)
{
    const weft_axis embed = axis("embed", m->o->embed), ffn = axis("ffn", m->o->ffn);
    weft_tensor y = layernorm(m, "ln2", x);
    weft_tensor w = make_param(m, "ffn.in.w", 2, (weft_axis[]){ffn, embed}, NORMAL);
    weft_tensor b = make_param(m, "ffn.in.b", 1, &ffn, "zeros");
    y = make_linear(m, y, w, b);
    y = make_op(m, "gelu", NULL, 0, (weft_tensor[MAKE_INPUTS]){y}, 1);
    w = make_param(m, "ffn.out.w", 2, (weft_axis[]){embed, ffn}, init);
    b = make_param(m, "ffn.out.b", 1, &embed, "zeros");
    y = make_linear(m, y, w, 0);
    return make_op(m, "bias_residual", NULL, 0, (weft_tensor[MAKE_INPUTS]){y, b, x}, 1);
}

static weft_tensor head(making *m, weft_tensor x, weft_tensor table)
{
    make_block(m, "head");
    m->prefix = "head.";
    x = layernorm(m, "ln", x);
    if (!m->o->tied) {
        const weft_axis axes[] = {axis("vocab", m->o->vocab), axis("embed", m->o->embed)};
        table = make_param(m, "w", 2, axes, NORMAL);
    }
    return make_loss(m, make_linear(m, x, table, 0));
}

static weft_status gpt2_build(const weft_builder *b, const model_options *o, weft_tensor *out)
{
    making m = {.b = b, .o = o, .prefix = ""};
    char init[48], prefix[MAKE_PREFIX];
    make_small_normal(o, init);
    weft_tensor table, x = embed_tokens(&m, &table);
    for (int64_t i = 0; i < o->layers; i++) {
        make_layer(&m, i, prefix);
        x = attention(&m, x, init);
        x = feed_forward(&m, x, init);
    }
    x = head(&m, x, table);
    if (!m.st)
        *out = x;
    return m.st;
}

static weft_status gpt2_check(const model_options *o)
{
    if (o->kv_heads != o->heads)
        return combine_refuse(COMBINE_OWN_KV_HEADS, NULL, NULL,
                              (combine_fact[]){{"model.kv_heads", o->kv_heads, NULL},
                                               {"model.heads", o->heads, NULL},
                                               {"model.family", 0, "gpt2"},
                                               {0}});
    char theta[32];
    snprintf(theta, sizeof theta, "%g", o->rope_theta);
    if (o->rope_theta != MODEL_ROPE_THETA)
        return combine_refuse(
            COMBINE_NO_ROTATION, NULL, NULL,
            (combine_fact[]){{"model.rope_theta", 0, theta}, {"model.family", 0, "gpt2"}, {0}});
    return WEFT_OK;
}

static int64_t gpt2_params(const model_options *o)
{
    int64_t e = o->embed, f = o->ffn;
    int64_t norms = 2 * 2 * e; /* gain and bias, twice */
    int64_t attention_part = 3 * e * e + 3 * e + e * e + e;
    int64_t ffn_part = f * e + f + e * f + e;
    int64_t tables = (o->tied ? 1 : 2) * o->vocab * e + o->context * e;
    return tables + o->layers * (norms + attention_part + ffn_part) + 2 * e;
}

const model_family model_gpt2 = {"gpt2", 1, gpt2_check, gpt2_build, gpt2_params};
