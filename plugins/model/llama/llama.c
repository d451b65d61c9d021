/* plugins/model/llama: the Llama family.
 *
 * Tokens are embedded; positions enter as rotations of queries and keys. Every block is
 *
 *   x = x + attn.out (attention (rope (attn.q n), rope (attn.k n), attn.v n))   n = norm1 x
 *   x = x + ffn.down (swiglu (ffn.gate n, ffn.up n))                            n = norm2 x
 *
 * and the head is a last normalisation and a product with the vocabulary, of its own weight unless
 * tied. Normalisations have no mean. Nothing has a bias, except queries, keys and values with
 * qkv_bias; with qk_norm each head of queries and keys is normalised before it is rotated. With
 * activation = gelu_tanh the gate goes through GELU. With kv_heads below heads,
 * neighbouring heads of queries share one of keys and values. Queries, keys and values are three
 * products, as gate and up are two, so that a strategy may cut `heads` and `kv_heads`, or `ffn`,
 * each along its own name. While training with dropout, it applies to the embedding and to what
 * attn.out and ffn.down add to x.
 *
 * Where the data tells documents apart, attention stays within them. A rotation is of the distance
 * between two tokens alone, so positions need not begin anew. */
#include <stdio.h>

#include "huggingface.h"
#include "llama.h"

/* The layers in construction, with the options of this family. */
typedef struct llama {
    layers m;
    const llama_options *o;
    int64_t head_dim;
} llama;

static weft_axis axis(const char *name, int64_t size)
{
    return (weft_axis){name, size};
}

/* x over its last axis, with a gain named `name`. */
static weft_tensor norm(llama *l, const char *name, weft_tensor x, weft_axis last)
{
    char gain[32];
    const weft_attr eps = {.key = "eps", .f = l->o->o.norm_eps};
    snprintf(gain, sizeof gain, "%s.g", name);
    weft_tensor g = layers_param(&l->m, gain, 1, &last, "ones");
    return layers_op(&l->m, "rmsnorm", &eps, 1, (weft_tensor[LAYERS_INPUTS]){x, g}, 2);
}

/* x [t, embed] times the weight attn.NAME.w: [t, heads, head_dim]. */
static weft_tensor project(llama *l, const char *name, weft_tensor x, weft_axis heads)
{
    char full[32];
    const weft_axis axes[] = {heads, axis("head_dim", l->head_dim), axis("embed", l->o->o.embed)};
    snprintf(full, sizeof full, "attn.%s.w", name);
    weft_tensor w = layers_param(&l->m, full, 3, axes, LAYERS_INIT_NORMAL), b = 0;
    snprintf(full, sizeof full, "attn.%s.b", name);
    if (l->o->qkv_bias)
        b = layers_param(&l->m, full, 2, axes, "zeros");
    return layers_linear(&l->m, x, w, b);
}

static weft_tensor rotate(llama *l, const char *normed, weft_tensor x)
{
    const llama_rope *r = &l->o->rope;
    const weft_attr attrs[] = {WEFT_ATTR_INT("sequence", l->m.args->sequence),
                               WEFT_ATTR_REAL("theta", l->o->o.rope_theta),
                               WEFT_ATTR_INT("sign", 1),
                               WEFT_ATTR_REAL("factor", r->factor),
                               WEFT_ATTR_INT("original", r->original),
                               WEFT_ATTR_REAL("low", r->low),
                               WEFT_ATTR_REAL("high", r->high)};
    if (l->o->qk_norm)
        x = norm(l, normed, x, axis("head_dim", l->head_dim));
    return layers_op(&l->m, "rope", attrs,
                     r->factor == 1 ? 3
                     : r->original  ? 7
                                    : 4,
                     (weft_tensor[LAYERS_INPUTS]){x}, 1);
}

static weft_tensor attention(llama *l, weft_tensor x, const char *init)
{
    layers *m = &l->m;
    const weft_axis heads = axis("heads", m->o->heads), kv_heads = axis("kv_heads", m->o->kv_heads);
    const weft_axis embed = axis("embed", m->o->embed);
    const weft_attr attrs[] = {{.key = "sequence", .i = m->args->sequence},
                               {.key = "causal", .i = 1}};
    weft_tensor n = norm(l, "norm1", x, embed);
    weft_tensor q = rotate(l, "attn.q_norm", project(l, "q", n, heads));
    weft_tensor k = rotate(l, "attn.k_norm", project(l, "k", n, kv_heads));
    weft_tensor v = project(l, "v", n, kv_heads);
    const weft_tensor in[LAYERS_INPUTS] = {q, k, v, m->places};
    weft_tensor y = layers_op(m, "attention", attrs, 2, in, 2);
    const weft_axis out[] = {embed, heads, axis("head_dim", l->head_dim)};
    y = layers_linear(m, y, layers_param(m, "attn.out.w", 3, out, init), 0);
    return layers_dropout(m, "attn.drop", y, 0, x);
}

static weft_tensor gated(llama *l, weft_tensor gate, weft_tensor up)
{
    if (!l->o->gelu)
        return layers_op(&l->m, "swiglu", NULL, 0, (weft_tensor[LAYERS_INPUTS]){gate, up}, 1);
    gate = layers_op(&l->m, "gelu", NULL, 0, (weft_tensor[LAYERS_INPUTS]){gate}, 1);
    return layers_op(&l->m, "mul", NULL, 0, (weft_tensor[LAYERS_INPUTS]){gate, up}, 1);
}

static weft_tensor feed_forward(llama *l, weft_tensor x, const char *init)
{
    layers *m = &l->m;
    const weft_axis embed = axis("embed", m->o->embed), ffn = axis("ffn", m->o->ffn);
    const weft_axis in[] = {ffn, embed}, out[] = {embed, ffn};
    weft_tensor n = norm(l, "norm2", x, embed);
    weft_tensor gate =
        layers_linear(m, n, layers_param(m, "ffn.gate.w", 2, in, LAYERS_INIT_NORMAL), 0);
    weft_tensor up = layers_linear(m, n, layers_param(m, "ffn.up.w", 2, in, LAYERS_INIT_NORMAL), 0);
    weft_tensor y = gated(l, gate, up);
    y = layers_linear(m, y, layers_param(m, "ffn.down.w", 2, out, init), 0);
    return layers_dropout(m, "ffn.drop", y, 0, x);
}

static weft_status llama_build(void *module, const weft_model_args *args, const weft_builder *b,
                               weft_tensor *out)
{
    llama_options o;
    char init[48], prefix[LAYERS_PREFIX];
    llama_read(args->conf, &o);
    o.o.vocab = args->vocab;
    llama l = {layers_begin(module, args, b, &o.o), &o, llama_head_dim(&o.o)};
    layers *m = &l.m;
    const weft_axis embed = axis("embed", o.o.embed);
    const weft_axis table_axes[] = {axis("vocab", o.o.vocab), embed};
    layers_residual_init(&o.o, init);
    layers_block(m, "embed");
    weft_tensor table = layers_param(m, "embed.tok.w", 2, table_axes, LAYERS_INIT_NORMAL);
    weft_tensor tokens = layers_input(m, "tokens");
    layers_documents(m);
    weft_tensor x =
        layers_op(m, "embedding", NULL, 0, (weft_tensor[LAYERS_INPUTS]){table, tokens}, 1);
    x = layers_dropout(m, "embed.drop", x, 0, 0);
    for (int64_t i = 0; i < o.o.layers; i++) {
        layers_next(m, i, prefix);
        x = attention(&l, x, init);
        x = feed_forward(&l, x, init);
    }
    layers_block(m, "head");
    m->prefix = "head.";
    x = norm(&l, "norm", x, embed);
    if (!o.o.tied)
        table = layers_param(m, "w", 2, table_axes, LAYERS_INIT_NORMAL);
    x = layers_loss(m, layers_linear(m, x, table, 0));
    if (m->st == WEFT_OK)
        *out = x;
    return m->st;
}

static weft_status llama_describe(void *module, const weft_conf *conf, const weft_data_info *data,
                                  weft_model_info *out)
{
    llama_options o;
    llama_read(conf, &o);
    weft_status st = llama_check(module, data, &o);
    const weft_model_info info = {
        sizeof info, 0, st == WEFT_OK ? llama_params(&o) : 0, o.o.context, (uint32_t)o.o.vocab, 0};
    if (st == WEFT_OK)
        weft_give(out, &info);
    return st;
}

/* --- the plugin --- */

static const weft_model_table table = {.struct_size = sizeof table,
                                       .describe = llama_describe,
                                       .build = llama_build,
                                       .formats = llama_formats};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.model/1",
    .name = "llama",
    .help = "Llama and its kin (Mistral, Qwen): rotary positions, RMS normalisation, SwiGLU",
    .options = llama_keys,
    .table = &table};
static const weft_component *const components[] = {&component, NULL};

WEFT_PLUGIN("weft.llama", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
