/* graph/model/llama.c: the Llama family.
 *
 * Tokens are embedded; positions enter as rotations of queries and keys. Every block is
 *
 *   x = x + attn.out (attention (rope (attn.q n), rope (attn.k n), attn.v n))   n = norm1 x
 *   x = x + ffn.down (swiglu (ffn.gate n, ffn.up n))                            n = norm2 x
 *
 * and the head is a last normalisation and a product with the vocabulary, of its own weight unless
 * tied. Normalisations have no mean, and nothing has a bias. With kv_heads below heads,
 * neighbouring heads of queries share one of keys and values. Queries, keys and values are three
 * products, as gate and up are two, so that a strategy may cut `heads` and `kv_heads`, or `ffn`,
 * each along its own name. While training with dropout, it applies to the embedding and to what
 * attn.out and ffn.down add to x. */
#include <stdio.h>

#include "base/err.h"
#include "config/constraints.h"
#include "graph/model/family.h"
#include "graph/model/layers.h"

static weft_axis axis(const char *name, int64_t size)
{
    return (weft_axis){name, size};
}

static weft_tensor norm(graph_layers *m, const char *name, weft_tensor x)
{
    char gain[32];
    const weft_axis embed = axis("embed", m->o->embed);
    const weft_attr eps = {.key = "eps", .f = m->o->norm_eps};
    snprintf(gain, sizeof gain, "%s.g", name);
    weft_tensor g = graph_layer_param(m, gain, 1, &embed, "ones");
    return graph_layer_op(m, "rmsnorm", &eps, 1, (weft_tensor[GRAPH_LAYER_INPUTS]){x, g}, 2);
}

/* x [t, embed] times a weight named `name`: [t, heads, head_dim]. */
static weft_tensor project(graph_layers *m, const char *name, weft_tensor x, weft_axis heads)
{
    const graph_model_options *o = m->o;
    const weft_axis axes[] = {heads, axis("head_dim", o->embed / o->heads),
                              axis("embed", o->embed)};
    return graph_layer_linear(m, x, graph_layer_param(m, name, 3, axes, GRAPH_INIT_NORMAL), 0);
}

static weft_tensor rotate(graph_layers *m, weft_tensor x)
{
    const weft_attr attrs[] = {{.key = "sequence", .i = m->o->sequence},
                               {.key = "theta", .f = m->o->rope_theta},
                               {.key = "sign", .i = 1}};
    return graph_layer_op(m, "rope", attrs, 3, (weft_tensor[GRAPH_LAYER_INPUTS]){x}, 1);
}

static weft_tensor attention(graph_layers *m, weft_tensor x, const char *init)
{
    const graph_model_options *o = m->o;
    const weft_axis heads = axis("heads", o->heads), kv_heads = axis("kv_heads", o->kv_heads);
    const weft_attr attrs[] = {{.key = "sequence", .i = o->sequence}, {.key = "causal", .i = 1}};
    weft_tensor n = norm(m, "norm1", x);
    weft_tensor q = rotate(m, project(m, "attn.q.w", n, heads));
    weft_tensor k = rotate(m, project(m, "attn.k.w", n, kv_heads));
    weft_tensor v = project(m, "attn.v.w", n, kv_heads);
    weft_tensor y =
        graph_layer_op(m, "attention", attrs, 2, (weft_tensor[GRAPH_LAYER_INPUTS]){q, k, v}, 2);
    const weft_axis out[] = {axis("embed", o->embed), heads, axis("head_dim", o->embed / o->heads)};
    y = graph_layer_linear(m, y, graph_layer_param(m, "attn.out.w", 3, out, init), 0);
    return graph_layer_dropout(m, "attn.drop", y, 0, x);
}

static weft_tensor feed_forward(graph_layers *m, weft_tensor x, const char *init)
{
    const weft_axis embed = axis("embed", m->o->embed), ffn = axis("ffn", m->o->ffn);
    const weft_axis in[] = {ffn, embed}, out[] = {embed, ffn};
    weft_tensor n = norm(m, "norm2", x);
    weft_tensor gate =
        graph_layer_linear(m, n, graph_layer_param(m, "ffn.gate.w", 2, in, GRAPH_INIT_NORMAL), 0);
    weft_tensor up =
        graph_layer_linear(m, n, graph_layer_param(m, "ffn.up.w", 2, in, GRAPH_INIT_NORMAL), 0);
    weft_tensor y =
        graph_layer_op(m, "swiglu", NULL, 0, (weft_tensor[GRAPH_LAYER_INPUTS]){gate, up}, 1);
    y = graph_layer_linear(m, y, graph_layer_param(m, "ffn.down.w", 2, out, init), 0);
    return graph_layer_dropout(m, "ffn.drop", y, 0, x);
}

static weft_status llama_build(const weft_builder *b, const graph_model_options *o,
                               weft_tensor *out)
{
    graph_layers m = {.b = b, .o = o, .prefix = ""};
    char init[48], prefix[GRAPH_LAYER_PREFIX];
    const weft_axis table_axes[] = {axis("vocab", o->vocab), axis("embed", o->embed)};
    graph_layer_residual_init(o, init);
    graph_layer_block(&m, "embed");
    weft_tensor table = graph_layer_param(&m, "embed.tok.w", 2, table_axes, GRAPH_INIT_NORMAL);
    weft_tensor tokens = graph_layer_input(&m, "tokens");
    weft_tensor x = graph_layer_op(&m, "embedding", NULL, 0,
                                   (weft_tensor[GRAPH_LAYER_INPUTS]){table, tokens}, 1);
    x = graph_layer_dropout(&m, "embed.drop", x, 0, 0);
    for (int64_t i = 0; i < o->layers; i++) {
        graph_layer_begin(&m, i, prefix);
        x = attention(&m, x, init);
        x = feed_forward(&m, x, init);
    }
    graph_layer_block(&m, "head");
    m.prefix = "head.";
    x = norm(&m, "norm", x);
    if (!o->tied)
        table = graph_layer_param(&m, "w", 2, table_axes, GRAPH_INIT_NORMAL);
    x = graph_layer_loss(&m, graph_layer_linear(&m, x, table, 0));
    if (m.st == WEFT_OK)
        *out = x;
    return m.st;
}

static weft_status llama_check(const graph_model_options *o)
{
    int64_t dim = o->embed / o->heads;
    if (dim % 2)
        return config_refuse(CONSTRAINT_PAIRS, NULL, NULL,
                             (config_fact[]){{"model.embed", o->embed, NULL},
                                             {"model.heads", o->heads, NULL},
                                             {"dim", dim, NULL},
                                             {"model.family", 0, "llama"},
                                             {0}});
    if (!(o->rope_theta > 0) || !(o->norm_eps > 0))
        return err_fail(WEFT_USAGE,
                        "model.rope_theta is %g and model.norm_eps is %g; both must be above 0",
                        o->rope_theta, o->norm_eps);
    return WEFT_OK;
}

static int64_t llama_params(const graph_model_options *o)
{
    int64_t e = o->embed, kv = e / o->heads * o->kv_heads;
    int64_t block = 2 * e + 2 * e * e + 2 * e * kv + 3 * e * o->ffn;
    return (o->tied ? 1 : 2) * o->vocab * e + o->layers * block + e;
}

const model_family graph_model_llama = {"llama", 0, llama_check, llama_build, llama_params};
