/* graph/model/gpt2.c: the GPT-2 family.
 *
 * Token and position embeddings are added; every block is
 *
 *   x = x + attn.out (attention (attn.qkv (ln1 x)))
 *   x = x + ffn.out (gelu (ffn.in (ln2 x)))
 *
 * and the head is a last normalisation and a product with the vocabulary, whose weight is that of
 * the token embedding when tied. The two projections into the residual stream have their bias added
 * after the product, so that tensor parallelism can cut the product (ops/misc.c). While training
 * with dropout, it applies to the embedding and to what attn.out and ffn.out add to x. */
#include <stdio.h>

#include "base/err.h"
#include "config/constraints.h"
#include "graph/model/family.h"
#include "graph/model/layers.h"

static weft_axis axis(const char *name, int64_t size)
{
    return (weft_axis){name, size};
}

static weft_tensor layernorm(graph_layers *m, const char *name, weft_tensor x)
{
    char gain[32], bias[32];
    weft_axis embed = axis("embed", m->o->embed);
    weft_attr eps = {.key = "eps", .f = m->o->norm_eps};
    snprintf(gain, sizeof gain, "%s.g", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    weft_tensor g = graph_layer_param(m, gain, 1, &embed, "ones");
    weft_tensor b = graph_layer_param(m, bias, 1, &embed, "zeros");
    return graph_layer_op(m, "layernorm", &eps, 1, (weft_tensor[GRAPH_LAYER_INPUTS]){x, g, b}, 3);
}

static weft_tensor embed_tokens(graph_layers *m, weft_tensor *table)
{
    const weft_axis embed = axis("embed", m->o->embed);
    graph_layer_block(m, "embed");
    *table = graph_layer_param(m, "embed.tok.w", 2,
                               (weft_axis[]){axis("vocab", m->o->vocab), embed}, GRAPH_INIT_NORMAL);
    weft_tensor places =
        graph_layer_param(m, "embed.pos.w", 2, (weft_axis[]){axis("context", m->o->context), embed},
                          GRAPH_INIT_NORMAL);
    weft_tensor tokens = graph_layer_input(m, "tokens"),
                positions = graph_layer_input(m, "positions");
    weft_tensor t = graph_layer_op(m, "embedding", NULL, 0,
                                   (weft_tensor[GRAPH_LAYER_INPUTS]){*table, tokens}, 1);
    weft_tensor p = graph_layer_op(m, "embedding", NULL, 0,
                                   (weft_tensor[GRAPH_LAYER_INPUTS]){places, positions}, 1);
    weft_tensor x = graph_layer_op(m, "add", NULL, 0, (weft_tensor[GRAPH_LAYER_INPUTS]){t, p}, 1);
    return graph_layer_dropout(m, "embed.drop", x, 0, 0);
}

static weft_tensor attention(graph_layers *m, weft_tensor x, const char *init)
{
    const graph_model_options *o = m->o;
    const weft_axis embed = axis("embed", o->embed);
    const weft_axis qkv[] = {axis("three", 3), axis("heads", o->heads),
                             axis("head_dim", o->embed / o->heads), embed};
    const weft_attr attrs[] = {{.key = "sequence", .i = o->sequence}, {.key = "causal", .i = 1}};
    weft_tensor y = layernorm(m, "ln1", x);
    weft_tensor w = graph_layer_param(m, "attn.qkv.w", 4, qkv, GRAPH_INIT_NORMAL);
    weft_tensor b = graph_layer_param(m, "attn.qkv.b", 3, qkv, "zeros");
    y = graph_layer_linear(m, y, w, b);
    y = graph_layer_op(m, "attention", attrs, 2, (weft_tensor[GRAPH_LAYER_INPUTS]){y}, 2);
    w = graph_layer_param(m, "attn.out.w", 3, (weft_axis[]){embed, qkv[1], qkv[2]}, init);
    b = graph_layer_param(m, "attn.out.b", 1, &embed, "zeros");
    y = graph_layer_linear(m, y, w, 0);
    return graph_layer_dropout(m, "attn.drop", y, b, x);
}

static weft_tensor feed_forward(graph_layers *m, weft_tensor x, const char *init)
{
    const weft_axis embed = axis("embed", m->o->embed), ffn = axis("ffn", m->o->ffn);
    weft_tensor y = layernorm(m, "ln2", x);
    weft_tensor w =
        graph_layer_param(m, "ffn.in.w", 2, (weft_axis[]){ffn, embed}, GRAPH_INIT_NORMAL);
    weft_tensor b = graph_layer_param(m, "ffn.in.b", 1, &ffn, "zeros");
    y = graph_layer_linear(m, y, w, b);
    y = graph_layer_op(m, "gelu", NULL, 0, (weft_tensor[GRAPH_LAYER_INPUTS]){y}, 1);
    w = graph_layer_param(m, "ffn.out.w", 2, (weft_axis[]){embed, ffn}, init);
    b = graph_layer_param(m, "ffn.out.b", 1, &embed, "zeros");
    y = graph_layer_linear(m, y, w, 0);
    return graph_layer_dropout(m, "ffn.drop", y, b, x);
}

static weft_tensor head(graph_layers *m, weft_tensor x, weft_tensor table)
{
    graph_layer_block(m, "head");
    m->prefix = "head.";
    x = layernorm(m, "ln", x);
    if (!m->o->tied) {
        const weft_axis axes[] = {axis("vocab", m->o->vocab), axis("embed", m->o->embed)};
        table = graph_layer_param(m, "w", 2, axes, GRAPH_INIT_NORMAL);
    }
    return graph_layer_loss(m, graph_layer_linear(m, x, table, 0));
}

static weft_status gpt2_build(const weft_builder *b, const graph_model_options *o, weft_tensor *out)
{
    graph_layers m = {.b = b, .o = o, .prefix = ""};
    char init[48], prefix[GRAPH_LAYER_PREFIX];
    graph_layer_residual_init(o, init);
    weft_tensor table, x = embed_tokens(&m, &table);
    for (int64_t i = 0; i < o->layers; i++) {
        graph_layer_begin(&m, i, prefix);
        x = attention(&m, x, init);
        x = feed_forward(&m, x, init);
    }
    x = head(&m, x, table);
    if (m.st == WEFT_OK)
        *out = x;
    return m.st;
}

static weft_status gpt2_check(const graph_model_options *o)
{
    if (o->kv_heads != o->heads)
        return config_refuse(CONSTRAINT_OWN_KV_HEADS, NULL, NULL,
                             (config_fact[]){{"model.kv_heads", o->kv_heads, NULL},
                                             {"model.heads", o->heads, NULL},
                                             {"model.family", 0, "gpt2"},
                                             {0}});
    char theta[32];
    snprintf(theta, sizeof theta, "%g", o->rope_theta);
    if (o->rope_theta != MODEL_ROPE_THETA)
        return config_refuse(
            CONSTRAINT_NO_ROTATION, NULL, NULL,
            (config_fact[]){{"model.rope_theta", 0, theta}, {"model.family", 0, "gpt2"}, {0}});
    return WEFT_OK;
}

static int64_t gpt2_params(const graph_model_options *o)
{
    int64_t e = o->embed, f = o->ffn;
    int64_t norms = 2 * 2 * e; /* gain and bias, twice */
    int64_t attention_part = 3 * e * e + 3 * e + e * e + e;
    int64_t ffn_part = f * e + f + e * f + e;
    int64_t tables = (o->tied ? 1 : 2) * o->vocab * e + o->context * e;
    return tables + o->layers * (norms + attention_part + ffn_part) + 2 * e;
}

const model_family graph_model_gpt2 = {"gpt2", 1, gpt2_check, gpt2_build, gpt2_params};
