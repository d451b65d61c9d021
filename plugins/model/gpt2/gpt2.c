/* plugins/model/gpt2: the GPT-2 family.
 *
 * Token and position embeddings are added; every block is
 *
 *   x = x + attn.out (attention (attn.qkv (ln1 x)))
 *   x = x + ffn.out (gelu (ffn.in (ln2 x)))
 *
 * and the head is a last normalisation and a product with the vocabulary, whose weight is that of
 * the token embedding when tied. The two projections into the residual stream have their bias added
 * after the product, so that tensor parallelism can cut the product (op/builtin/misc.c). While
 * training with dropout, it applies to the embedding and to what attn.out and ffn.out add to x.
 *
 * Where the data tells documents apart, attention stays within them. */
#include <stdio.h>
#include <string.h>

#include "huggingface.h"
#include "layers.h"

static weft_axis axis(const char *name, int64_t size)
{
    return (weft_axis){name, size};
}

static weft_tensor layernorm(layers *m, const char *name, weft_tensor x)
{
    char gain[32], bias[32];
    weft_axis embed = axis("embed", m->o->embed);
    weft_attr eps = {.key = "eps", .f = m->o->norm_eps};
    snprintf(gain, sizeof gain, "%s.g", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    weft_tensor g = layers_param(m, gain, 1, &embed, "ones");
    weft_tensor b = layers_param(m, bias, 1, &embed, "zeros");
    return layers_op(m, "layernorm", &eps, 1, (weft_tensor[LAYERS_INPUTS]){x, g, b}, 3);
}

/* Positions begin anew with each document, where the data tells documents apart and the job does
 * not say otherwise. */
static weft_tensor count_positions(layers *m)
{
    const weft_conf *conf = m->args->conf;
    layers_documents(m);
    return m->places && !strcmp(conf->text(conf->ctx, "positions"), "document")
               ? m->places
               : layers_input(m, "positions");
}

static weft_tensor embed_tokens(layers *m, weft_tensor *table)
{
    const weft_axis embed = axis("embed", m->o->embed);
    layers_block(m, "embed");
    *table = layers_param(m, "embed.tok.w", 2, (weft_axis[]){axis("vocab", m->o->vocab), embed},
                          LAYERS_INIT_NORMAL);
    weft_tensor places =
        layers_param(m, "embed.pos.w", 2, (weft_axis[]){axis("context", m->o->context), embed},
                     LAYERS_INIT_NORMAL);
    weft_tensor tokens = layers_input(m, "tokens"), positions = count_positions(m);
    weft_tensor t =
        layers_op(m, "embedding", NULL, 0, (weft_tensor[LAYERS_INPUTS]){*table, tokens}, 1);
    weft_tensor p =
        layers_op(m, "embedding", NULL, 0, (weft_tensor[LAYERS_INPUTS]){places, positions}, 1);
    weft_tensor x = layers_op(m, "add", NULL, 0, (weft_tensor[LAYERS_INPUTS]){t, p}, 1);
    return layers_dropout(m, "embed.drop", x, 0, 0);
}

static weft_tensor attention(layers *m, weft_tensor x, const char *init)
{
    const layers_options *o = m->o;
    const weft_axis embed = axis("embed", o->embed);
    const weft_axis qkv[] = {axis("three", 3), axis("heads", o->heads),
                             axis("head_dim", o->embed / o->heads), embed};
    const weft_attr attrs[] = {{.key = "sequence", .i = m->args->sequence},
                               {.key = "causal", .i = 1}};
    weft_tensor y = layernorm(m, "ln1", x);
    weft_tensor w = layers_param(m, "attn.qkv.w", 4, qkv, LAYERS_INIT_NORMAL);
    weft_tensor b = layers_param(m, "attn.qkv.b", 3, qkv, "zeros");
    y = layers_linear(m, y, w, b);
    y = layers_op(m, "attention", attrs, 2, (weft_tensor[LAYERS_INPUTS]){y, m->places}, 2);
    w = layers_param(m, "attn.out.w", 3, (weft_axis[]){embed, qkv[1], qkv[2]}, init);
    b = layers_param(m, "attn.out.b", 1, &embed, "zeros");
    y = layers_linear(m, y, w, 0);
    return layers_dropout(m, "attn.drop", y, b, x);
}

static weft_tensor feed_forward(layers *m, weft_tensor x, const char *init)
{
    const weft_axis embed = axis("embed", m->o->embed), ffn = axis("ffn", m->o->ffn);
    weft_tensor y = layernorm(m, "ln2", x);
    weft_tensor w = layers_param(m, "ffn.in.w", 2, (weft_axis[]){ffn, embed}, LAYERS_INIT_NORMAL);
    weft_tensor b = layers_param(m, "ffn.in.b", 1, &ffn, "zeros");
    y = layers_linear(m, y, w, b);
    y = layers_op(m, "gelu", NULL, 0, (weft_tensor[LAYERS_INPUTS]){y}, 1);
    w = layers_param(m, "ffn.out.w", 2, (weft_axis[]){embed, ffn}, init);
    b = layers_param(m, "ffn.out.b", 1, &embed, "zeros");
    y = layers_linear(m, y, w, 0);
    return layers_dropout(m, "ffn.drop", y, b, x);
}

static weft_tensor head(layers *m, weft_tensor x, weft_tensor table)
{
    layers_block(m, "head");
    m->prefix = "head.";
    x = layernorm(m, "ln", x);
    if (!m->o->tied) {
        const weft_axis axes[] = {axis("vocab", m->o->vocab), axis("embed", m->o->embed)};
        table = layers_param(m, "w", 2, axes, LAYERS_INIT_NORMAL);
    }
    return layers_loss(m, layers_linear(m, x, table, 0));
}

static weft_status gpt2_build(void *module, const weft_model_args *args, const weft_builder *b,
                              weft_tensor *out)
{
    layers_options o;
    char init[48], prefix[LAYERS_PREFIX];
    layers_read(args->conf, true, &o);
    o.vocab = args->vocab;
    layers m = layers_begin(module, args, b, &o);
    layers_residual_init(&o, init);
    weft_tensor table, x = embed_tokens(&m, &table);
    for (int64_t i = 0; i < o.layers; i++) {
        layers_next(&m, i, prefix);
        x = attention(&m, x, init);
        x = feed_forward(&m, x, init);
    }
    x = head(&m, x, table);
    if (m.st == WEFT_OK)
        *out = x;
    return m.st;
}

static uint64_t count_params(const layers_options *o)
{
    const int64_t e = o->embed, f = o->ffn;
    const int64_t norms = 2 * 2 * e; /* gain and bias, twice */
    const int64_t attention_part = 3 * e * e + 3 * e + e * e + e;
    const int64_t ffn_part = f * e + f + e * f + e;
    const int64_t tables = (o->tied ? 1 : 2) * o->vocab * e + o->context * e;
    return (uint64_t)(tables + o->layers * (norms + attention_part + ffn_part) + 2 * e);
}

static weft_status gpt2_describe(void *module, const weft_conf *conf, const weft_data_info *data,
                                 weft_model_info *out)
{
    layers_options o;
    layers_read(conf, true, &o);
    weft_status st = layers_check(module, data, &o);
    if (st == WEFT_OK && o.kv_heads != o.heads)
        st = layers_refuse(module,
                           "model.kv_heads is %lld and model.heads is %lld: in family gpt2 every "
                           "head has its own keys and values; leave kv_heads out",
                           (long long)o.kv_heads, (long long)o.heads);
    if (st == WEFT_OK && o.rope_theta != 1e4)
        st = layers_refuse(module,
                           "model.rope_theta is %g, but family gpt2 learns its positions and "
                           "rotates nothing; leave rope_theta out",
                           o.rope_theta);
    const weft_model_info info = {
        sizeof info, 0, st == WEFT_OK ? count_params(&o) : 0, o.context, (uint32_t)o.vocab, 0};
    if (st == WEFT_OK)
        weft_give(out, &info);
    return st;
}

/* --- the plugin --- */

static const weft_option kv_heads = LAYERS_KEY(
    WEFT_OPT_AUTO_INT, "kv_heads", "auto",
    "heads of keys and values; gpt2 has as many as heads, llama may share them", NULL, 1, 65536);
static const weft_option tied =
    LAYERS_KEY(WEFT_OPT_CHOICE, "tied", "auto",
               "the head shares the weights of the embedding; auto: in gpt2 on, in llama off",
               "auto|on|off", 0, 0);
static const weft_option rope_theta = LAYERS_KEY(
    WEFT_OPT_REAL, "rope_theta", "10000",
    "llama: base of the angles that encode positions; gpt2 learns them", NULL, 1e-6, 1e18);
static const weft_option positions = LAYERS_KEY(
    WEFT_OPT_CHOICE, "positions", "document",
    "gpt2, with data.documents = separate: learned positions count from the beginning of "
    "the document, or of the sample",
    "document|sample", 0, 0);
static const weft_option *const options[] = {
    &layers_key_layers,  &layers_key_heads, &kv_heads, &layers_key_embed, &layers_key_ffn,
    &layers_key_context, &layers_key_vocab, &tied,     &rope_theta,       &layers_key_norm_eps,
    &layers_key_dropout, &positions,        NULL};

static const weft_model_table table = {.struct_size = sizeof table,
                                       .describe = gpt2_describe,
                                       .build = gpt2_build,
                                       .formats = gpt2_formats};

static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.model/1",
                                         .name = "gpt2",
                                         .help =
                                             "GPT-2: learned positions, layer normalisation, GELU",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.gpt2", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
