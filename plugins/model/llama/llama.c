/* plugins/model/llama: the Llama family.
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

#include "huggingface.h"
#include "layers.h"

static weft_axis axis(const char *name, int64_t size)
{
    return (weft_axis){name, size};
}

static weft_tensor norm(layers *m, const char *name, weft_tensor x)
{
    char gain[32];
    const weft_axis embed = axis("embed", m->o->embed);
    const weft_attr eps = {.key = "eps", .f = m->o->norm_eps};
    snprintf(gain, sizeof gain, "%s.g", name);
    weft_tensor g = layers_param(m, gain, 1, &embed, "ones");
    return layers_op(m, "rmsnorm", &eps, 1, (weft_tensor[LAYERS_INPUTS]){x, g}, 2);
}

/* x [t, embed] times a weight named `name`: [t, heads, head_dim]. */
static weft_tensor project(layers *m, const char *name, weft_tensor x, weft_axis heads)
{
    const layers_options *o = m->o;
    const weft_axis axes[] = {heads, axis("head_dim", o->embed / o->heads),
                              axis("embed", o->embed)};
    return layers_linear(m, x, layers_param(m, name, 3, axes, LAYERS_INIT_NORMAL), 0);
}

static weft_tensor rotate(layers *m, weft_tensor x)
{
    const weft_attr attrs[] = {{.key = "sequence", .i = m->args->sequence},
                               {.key = "theta", .f = m->o->rope_theta},
                               {.key = "sign", .i = 1}};
    return layers_op(m, "rope", attrs, 3, (weft_tensor[LAYERS_INPUTS]){x}, 1);
}

static weft_tensor attention(layers *m, weft_tensor x, const char *init)
{
    const layers_options *o = m->o;
    const weft_axis heads = axis("heads", o->heads), kv_heads = axis("kv_heads", o->kv_heads);
    const weft_attr attrs[] = {{.key = "sequence", .i = m->args->sequence},
                               {.key = "causal", .i = 1}};
    weft_tensor n = norm(m, "norm1", x);
    weft_tensor q = rotate(m, project(m, "attn.q.w", n, heads));
    weft_tensor k = rotate(m, project(m, "attn.k.w", n, kv_heads));
    weft_tensor v = project(m, "attn.v.w", n, kv_heads);
    weft_tensor y = layers_op(m, "attention", attrs, 2, (weft_tensor[LAYERS_INPUTS]){q, k, v}, 2);
    const weft_axis out[] = {axis("embed", o->embed), heads, axis("head_dim", o->embed / o->heads)};
    y = layers_linear(m, y, layers_param(m, "attn.out.w", 3, out, init), 0);
    return layers_dropout(m, "attn.drop", y, 0, x);
}

static weft_tensor feed_forward(layers *m, weft_tensor x, const char *init)
{
    const weft_axis embed = axis("embed", m->o->embed), ffn = axis("ffn", m->o->ffn);
    const weft_axis in[] = {ffn, embed}, out[] = {embed, ffn};
    weft_tensor n = norm(m, "norm2", x);
    weft_tensor gate =
        layers_linear(m, n, layers_param(m, "ffn.gate.w", 2, in, LAYERS_INIT_NORMAL), 0);
    weft_tensor up = layers_linear(m, n, layers_param(m, "ffn.up.w", 2, in, LAYERS_INIT_NORMAL), 0);
    weft_tensor y = layers_op(m, "swiglu", NULL, 0, (weft_tensor[LAYERS_INPUTS]){gate, up}, 1);
    y = layers_linear(m, y, layers_param(m, "ffn.down.w", 2, out, init), 0);
    return layers_dropout(m, "ffn.drop", y, 0, x);
}

static weft_status llama_build(void *module, const weft_model_args *args, const weft_builder *b,
                               weft_tensor *out)
{
    layers_options o;
    char init[48], prefix[LAYERS_PREFIX];
    layers_read(args->conf, false, &o);
    o.vocab = args->vocab;
    layers m = layers_begin(module, args, b, &o);
    const weft_axis table_axes[] = {axis("vocab", o.vocab), axis("embed", o.embed)};
    layers_residual_init(&o, init);
    layers_block(&m, "embed");
    weft_tensor table = layers_param(&m, "embed.tok.w", 2, table_axes, LAYERS_INIT_NORMAL);
    weft_tensor tokens = layers_input(&m, "tokens");
    weft_tensor x =
        layers_op(&m, "embedding", NULL, 0, (weft_tensor[LAYERS_INPUTS]){table, tokens}, 1);
    x = layers_dropout(&m, "embed.drop", x, 0, 0);
    for (int64_t i = 0; i < o.layers; i++) {
        layers_next(&m, i, prefix);
        x = attention(&m, x, init);
        x = feed_forward(&m, x, init);
    }
    layers_block(&m, "head");
    m.prefix = "head.";
    x = norm(&m, "norm", x);
    if (!o.tied)
        table = layers_param(&m, "w", 2, table_axes, LAYERS_INIT_NORMAL);
    x = layers_loss(&m, layers_linear(&m, x, table, 0));
    if (m.st == WEFT_OK)
        *out = x;
    return m.st;
}

static uint64_t count_params(const layers_options *o)
{
    const int64_t e = o->embed, kv = e / o->heads * o->kv_heads;
    const int64_t block = 2 * e + 2 * e * e + 2 * e * kv + 3 * e * o->ffn;
    return (uint64_t)((o->tied ? 1 : 2) * o->vocab * e + o->layers * block + e);
}

static weft_status llama_describe(void *module, const weft_conf *conf, const weft_data_info *data,
                                  weft_model_info *out)
{
    layers_options o;
    layers_read(conf, false, &o);
    weft_status st = layers_check(module, data, &o);
    if (st == WEFT_OK && o.embed / o.heads % 2)
        st = layers_refuse(module,
                           "model.embed is %lld and model.heads is %lld, which gives each head "
                           "%lld elements: family llama rotates them in pairs, so that must be "
                           "even",
                           (long long)o.embed, (long long)o.heads, (long long)(o.embed / o.heads));
    const weft_model_info info = {
        sizeof info, 0, st == WEFT_OK ? count_params(&o) : 0, o.context, (uint32_t)o.vocab, 0};
    if (st == WEFT_OK)
        weft_give(out, &info);
    return st;
}

/* --- the plugin --- */

static const weft_option kv_heads = LAYERS_KEY(
    WEFT_OPT_AUTO_INT, "kv_heads", "auto",
    "heads of keys and values; heads is a multiple of it; auto: as many as heads", NULL, 1, 65536);
static const weft_option embed = LAYERS_KEY(
    WEFT_OPT_INT, "embed", "768",
    "width of the residual stream; in llama each head has an even number of its elements", NULL, 1,
    1048576);
static const weft_option tied =
    LAYERS_KEY(WEFT_OPT_CHOICE, "tied", "auto",
               "the head shares the weights of the embedding; auto: in gpt2 on, in llama off",
               "auto|on|off", 0, 0);
static const weft_option rope_theta =
    LAYERS_KEY(WEFT_OPT_REAL, "rope_theta", "10000",
               "llama: base of the angles that encode positions", NULL, 1e-6, 1e18);
static const weft_option *const options[] = {
    &layers_key_layers, &layers_key_heads,    &kv_heads,           &embed,
    &layers_key_ffn,    &layers_key_context,  &layers_key_vocab,   &tied,
    &rope_theta,        &layers_key_norm_eps, &layers_key_dropout, NULL};

static const weft_model_table table = {.struct_size = sizeof table,
                                       .describe = llama_describe,
                                       .build = llama_build,
                                       .formats = llama_formats};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.model/1",
    .name = "llama",
    .help = "Llama: rotary positions, RMS normalisation, SwiGLU, shared keys and values",
    .options = options,
    .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.llama", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
