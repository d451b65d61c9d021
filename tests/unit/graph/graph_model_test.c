/* Are models built as their sizes say, and sizes that no model can have refused? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "graph/graph.h"

#include <test.h>

#include "builtin.h"
#include "family.h"

static const graph_mesh alone = {0};

/* GPT-2 as it was published, the smallest. */
static family_options published(void)
{
    return (family_options){.family = "gpt2",
                            .layers = 12,
                            .heads = 12,
                            .embed = 768,
                            .ffn = 3072,
                            .context = 1024,
                            .vocab = 50257,
                            .tied = 1,
                            .batch = 2,
                            .sequence = 1024,
                            .weight = 1.0 / 2048};
}

static int64_t built_params(const family_options *o, uint32_t *count)
{
    graph g;
    weft_tensor loss;
    int64_t n = 0;
    graph_init(&g, &alone, builtin_ops(), WEFT_BF16, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, o, &loss), WEFT_OK);
    *count = 0;
    for (uint32_t i = 0; i < g.tensors.n; i++)
        if (g.tensors.at[i].kind == WEFT_T_PARAM) {
            n += (int64_t)graph_shape_elements(&g.tensors.at[i].shape);
            ++*count;
        }
    graph_free(&g);
    return n;
}

TEST(parameter_counts)
{
    uint32_t tensors;
    family_options o = published();
    assert_int_equal(family_params(&o), 124439808); /* the published number */
    assert_int_equal(built_params(&o, &tensors), 124439808);
    assert_int_equal(tensors, 2 + 12 * 12 + 2);
    o.tied = 0;
    assert_int_equal(built_params(&o, &tensors), family_params(&o));
    o = (family_options){"gpt2", 3, 5, 5, 35, 17, 9, 101, 0, 1, 7, 1.0, WEFT_MODEL_TRAIN, 0, 0, 0};
    assert_int_equal(built_params(&o, &tensors), family_params(&o));
}

/* Llama 2 7B, Llama 3 8B and TinyLlama 1.1B, as they were published. */
TEST(llama_parameter_counts)
{
    static const struct {
        int64_t layers, heads, kv_heads, embed, ffn, vocab, params;
    } known[] = {{32, 32, 32, 4096, 11008, 32000, 6738415616},
                 {32, 32, 8, 4096, 14336, 128256, 8030261248},
                 {22, 32, 4, 2048, 5632, 32000, 1100048384}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t tensors;
        family_options o = published();
        o.family = "llama";
        o.layers = known[i].layers;
        o.heads = known[i].heads;
        o.kv_heads = known[i].kv_heads == known[i].heads ? 0 : known[i].kv_heads;
        o.embed = known[i].embed;
        o.ffn = known[i].ffn;
        o.vocab = known[i].vocab;
        o.tied = FAMILY_TIED_AUTO;
        assert_int_equal(family_params(&o), known[i].params);
        assert_int_equal(built_params(&o, &tensors), known[i].params);
        assert_int_equal(tensors, 3 + 9 * known[i].layers);
        o.tied = 1;
        assert_int_equal(family_params(&o), known[i].params - o.vocab * o.embed);
        assert_int_equal(built_params(&o, &tensors), family_params(&o));
    }
}

static const graph_tensor *named(const graph *g, const char *name)
{
    weft_tensor t = graph_find(g, name);
    if (!t)
        fail_msg("there is no tensor %s", name);
    return graph_tensor_at(g, t);
}

/* Names, axes and starting values are read from checkpoints and by strategies: they are fixed. */
TEST(names_axes_and_init)
{
    graph g;
    weft_tensor loss;
    family_options o = published();
    graph_init(&g, &alone, builtin_ops(), WEFT_BF16, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, &o, &loss), WEFT_OK);
    const graph_tensor *w = named(&g, "block.11.attn.qkv.w");
    const char *const axes[] = {"three", "heads", "head_dim", "embed"};
    assert_int_equal(w->shape.rank, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(w->shape.axes[i].name, axes[i]);
    assert_int_equal(w->flags, WEFT_PARAM_MATRIX);
    assert_string_equal(w->init, "normal:0.02");
    assert_string_equal(g.blocks.at[w->block], "block.11");
    w = named(&g, "block.3.ffn.out.w");
    assert_true(!strncmp(w->init, "normal:", 7));
    assert_true(strtod(w->init + 7, NULL) * strtod(w->init + 7, NULL) * 24 - 0.0004 < 1e-12);
    assert_string_equal(named(&g, "block.0.ln1.g")->init, "ones");
    assert_string_equal(named(&g, "block.0.attn.qkv.b")->init, "zeros");
    assert_int_equal(named(&g, "block.0.attn.qkv.b")->flags, 0);
    assert_int_equal(named(&g, "embed.pos.w")->flags, WEFT_PARAM_MATRIX | WEFT_PARAM_PAD);
    assert_string_equal(named(&g, "head.ln.g")->init, "ones");
    assert_int_equal(graph_find(&g, "head.w"), 0);
    assert_int_equal(named(&g, "tokens")->shape.axes[0].size, 2048);
    assert_int_equal(named(&g, "targets")->shape.dtype, WEFT_I32);
    assert_int_equal(g.blocks.n, 14);
    graph_free(&g);
}

static void expect_axes(const graph_tensor *t, const char *axes)
{
    char got[128] = "";
    for (uint32_t i = 0; i < t->shape.rank; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "",
                 t->shape.axes[i].name);
    assert_string_equal(got, axes);
}

TEST(llama_names_axes_and_init)
{
    graph g;
    weft_tensor loss;
    family_options o = published();
    o.family = "llama";
    o.kv_heads = 4;
    o.tied = 0;
    graph_init(&g, &alone, builtin_ops(), WEFT_BF16, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, &o, &loss), WEFT_OK);
    expect_axes(named(&g, "block.0.attn.q.w"), "heads head_dim embed");
    expect_axes(named(&g, "block.0.attn.k.w"), "kv_heads head_dim embed");
    expect_axes(named(&g, "block.0.attn.v.w"), "kv_heads head_dim embed");
    expect_axes(named(&g, "block.0.attn.out.w"), "embed heads head_dim");
    expect_axes(named(&g, "block.11.ffn.gate.w"), "ffn embed");
    expect_axes(named(&g, "block.11.ffn.up.w"), "ffn embed");
    expect_axes(named(&g, "block.11.ffn.down.w"), "embed ffn");
    expect_axes(named(&g, "embed.tok.w"), "vocab embed");
    expect_axes(named(&g, "head.w"), "vocab embed");
    assert_int_equal(named(&g, "block.0.attn.k.w")->shape.axes[0].size, 4);
    assert_string_equal(named(&g, "block.0.attn.q.w")->init, "normal:0.02");
    assert_string_equal(named(&g, "block.0.ffn.down.w")->init,
                        named(&g, "block.0.attn.out.w")->init);
    assert_int_equal(named(&g, "block.0.ffn.down.w")->flags, WEFT_PARAM_MATRIX);
    assert_string_equal(named(&g, "block.0.norm1.g")->init, "ones");
    assert_string_equal(named(&g, "block.0.norm2.g")->init, "ones");
    assert_int_equal(named(&g, "head.norm.g")->flags, 0);
    assert_int_equal(graph_find(&g, "positions"), 0);
    assert_int_equal(g.blocks.n, 14);
    graph_free(&g);
}

TEST(what_is_wanted)
{
    for (uint32_t want = WEFT_MODEL_TRAIN; want <= WEFT_MODEL_LOGITS; want++) {
        graph g;
        weft_tensor out;
        family_options o = published();
        o.want = want;
        graph_init(&g, &alone, builtin_ops(), WEFT_BF16, WEFT_F32);
        weft_builder b = graph_builder(&g);
        assert_int_equal(family_build(&b, &o, &out), WEFT_OK);
        const graph_tensor *t = graph_tensor_at(&g, out);
        assert_int_equal(t->shape.rank, want == WEFT_MODEL_LOGITS ? 2 : 0);
        assert_int_equal(t->shape.dtype, want == WEFT_MODEL_LOGITS ? WEFT_BF16 : WEFT_F32);
        assert_int_equal(graph_find(&g, "targets") != 0, want != WEFT_MODEL_LOGITS);
        assert_int_equal(graph_find(&g, "scale") != 0, want == WEFT_MODEL_TRAIN);
        graph_free(&g);
    }
}

static void refuse(const family_options *o, const char *says)
{
    graph g;
    weft_tensor out = 77;
    graph_init(&g, &alone, builtin_ops(), WEFT_BF16, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, o, &out), WEFT_USAGE);
    if (!strstr(err_text(), says))
        fail_msg("expected '%s' in: %s", says, err_text());
    assert_int_equal(out, 77);
    assert_int_equal(g.tensors.n, 0);
    assert_int_equal(family_params(o), 0);
    graph_free(&g);
}

/* Each number has bounds of its own, and some have to fit each other. */
TEST(impossible_sizes)
{
    static const struct {
        size_t at;
        int64_t value;
        const char *says;
    } wrong[] = {
        {offsetof(family_options, layers), 0, "model.layers: "},
        {offsetof(family_options, layers), 1 << 30, "model.layers: "},
        {offsetof(family_options, heads), -1, "model.heads: "},
        {offsetof(family_options, heads), 7,
         "model.heads: 7 heads do not divide model.embed = 768"},
        {offsetof(family_options, kv_heads), 4, "model.kv_heads is 4 and model.heads is 12"},
        {offsetof(family_options, kv_heads), -4, "model.kv_heads: "},
        {offsetof(family_options, embed), 0, "model.embed: "},
        {offsetof(family_options, embed), 1 << 30, "model.embed: "},
        {offsetof(family_options, ffn), 0, "model.ffn: "},
        {offsetof(family_options, context), 0, "model.context: "},
        {offsetof(family_options, vocab), 0,
         "model.vocab: 0 means what the data says, but the job"},
        {offsetof(family_options, vocab), 1 << 30, "model.vocab: "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        family_options o = published();
        memcpy((char *)&o + wrong[i].at, &wrong[i].value, sizeof wrong[i].value);
        refuse(&o, wrong[i].says);
    }
    family_options o = published();
    o.dropout = 1;
    refuse(&o, "model.dropout: ");
    o.dropout = -0.5;
    refuse(&o, "model.dropout: ");
    o = published();
    o.family = "bert";
    refuse(&o, "no model plugin 'bert' in ");
    o.family = "llma";
    refuse(&o, "did you mean 'llama'?");
    o = published();
    o.rope_theta = 5e5;
    refuse(&o, "model.rope_theta is 500000, but family gpt2");
    o = published();
    o.family = "llama";
    o.kv_heads = 5;
    refuse(&o, "heads must be a multiple of kv_heads");
    o.kv_heads = 24;
    refuse(&o, "heads must be a multiple of kv_heads");
    o.kv_heads = 4;
    o.embed = 12 * 63;
    refuse(&o, "gives each head 63 elements");
    o.embed = 768;
    o.rope_theta = -1;
    refuse(&o, "model.rope_theta: ");
    o = published();
    o.want = 4;
    graph g;
    weft_tensor out;
    graph_init(&g, &alone, builtin_ops(), WEFT_BF16, WEFT_F32);
    weft_builder b = graph_builder(&g);
    assert_int_equal(family_build(&b, &o, &out), WEFT_UNSUPPORTED);
    graph_free(&g);
}

/* The vocabulary of the data, and how it fits the model's. */
TEST(vocabulary_of_the_data)
{
    static const struct {
        const char *given;
        uint32_t data, vocab; /* vocab 0: refused */
        const char *says;
    } cases[] = {
        {"0", 300, 300, NULL},
        {"512", 300, 512, NULL},
        {"300", 300, 300, NULL},
        {"299", 300, 0, "model.vocab: the data has tokens up to 299, the model only 299"},
        {"0", 0, 0, "model.vocab: 0 means what the data says, but this data has no ids"},
    };
    const host_component *c = family_component("llama");
    assert_non_null(c);
    const weft_model_table *table = c->table;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config *cfg;
        assert_int_equal(config_load(NULL, NULL, 0, &cfg), WEFT_OK);
        assert_int_equal(config_add(cfg, "model", "llama", c->options), WEFT_OK);
        assert_int_equal(config_set(cfg, "model.vocab", cases[i].given, NULL), WEFT_OK);
        const weft_conf *conf = config_conf(cfg, "model", c->own);
        const weft_data_info data = {.struct_size = sizeof data, .vocab = cases[i].data};
        weft_model_info info = {.struct_size = sizeof info};
        weft_status st = PLUGIN_CALL(table, describe, c->module, conf, &data, &info);
        assert_int_equal(st, cases[i].vocab ? WEFT_OK : WEFT_USAGE);
        assert_int_equal(info.vocab, cases[i].vocab);
        assert_int_equal(info.context, cases[i].vocab ? 1024 : 0);
        if (!cases[i].vocab && !strstr(err_text(), cases[i].says))
            fail_msg("expected '%s' in: %s", cases[i].says, err_text());
        config_destroy(cfg);
    }
}
