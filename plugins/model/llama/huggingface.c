/* huggingface.c: LlamaForCausalLM of Hugging Face transformers and its kin. Nothing is transposed,
 * and rotary pairs are the halves of a head in all of them. They differ in a few fields: Qwen2 has
 * biases of queries, keys and values, Qwen3 norms of queries and keys. */
#include "huggingface.h"

#include "format.h"

#define LAYER "layers.*."
#define QKV "(heads head_dim)"
#define KV "(kv_heads head_dim)"

#define TENSORS                                                                                    \
    FORMAT_ROW("embed.tok.w", "embed_tokens.weight", NULL),                                        \
        FORMAT_ROW("block.*.norm1.g", LAYER "input_layernorm.weight", NULL),                       \
        FORMAT_ROW("block.*.attn.q.w", LAYER "self_attn.q_proj.weight", QKV " embed"),             \
        FORMAT_ROW("block.*.attn.k.w", LAYER "self_attn.k_proj.weight", KV " embed"),              \
        FORMAT_ROW("block.*.attn.v.w", LAYER "self_attn.v_proj.weight", KV " embed"),              \
        FORMAT_ROW("block.*.attn.out.w", LAYER "self_attn.o_proj.weight", "embed " QKV),           \
        FORMAT_ROW("block.*.norm2.g", LAYER "post_attention_layernorm.weight", NULL),              \
        FORMAT_ROW("block.*.ffn.gate.w", LAYER "mlp.gate_proj.weight", NULL),                      \
        FORMAT_ROW("block.*.ffn.up.w", LAYER "mlp.up_proj.weight", NULL),                          \
        FORMAT_ROW("block.*.ffn.down.w", LAYER "mlp.down_proj.weight", NULL),                      \
        FORMAT_ROW("head.norm.g", "norm.weight", NULL),                                            \
        FORMAT_BARE("head.w", "lm_head.weight", NULL), /* and of older versions: */                \
        FORMAT_ROW(NULL, LAYER "self_attn.rotary_emb.inv_freq", NULL)

static const weft_model_tensor *const plain[] = {TENSORS, NULL};

static const weft_model_tensor *const biased[] = {
    TENSORS, FORMAT_ROW("block.*.attn.q.b", LAYER "self_attn.q_proj.bias", QKV),
    FORMAT_ROW("block.*.attn.k.b", LAYER "self_attn.k_proj.bias", KV),
    FORMAT_ROW("block.*.attn.v.b", LAYER "self_attn.v_proj.bias", KV), NULL};

static const weft_model_tensor *const normed[] = {
    TENSORS, FORMAT_ROW("block.*.attn.q_norm.g", LAYER "self_attn.q_norm.weight", NULL),
    FORMAT_ROW("block.*.attn.k_norm.g", LAYER "self_attn.k_norm.weight", NULL), NULL};

#define SCALING(name) "rope_scaling." name "|rope_parameters." name
#define SILU "silu=silu|swish=silu|"
#define GELU "gelu_pytorch_tanh=gelu_tanh|gelu_new=gelu_tanh|gelu_fast=gelu_tanh"

#define FIELDS                                                                                     \
    FORMAT_NEEDED("num_hidden_layers", "layers"), FORMAT_NEEDED("num_attention_heads", "heads"),   \
        FORMAT_NEEDED("hidden_size", "embed"), FORMAT_NEEDED("intermediate_size", "ffn"),          \
        FORMAT_NEEDED("max_position_embeddings", "context"), FORMAT_NEEDED("vocab_size", "vocab"), \
        FORMAT_KEY("tie_word_embeddings", "tied", "true=on|false=off", "false"),                   \
        FORMAT_KEY("hidden_act", "activation", SILU GELU, "silu"),                                 \
        FORMAT_PLAIN("rope_theta|rope_parameters.rope_theta", "rope_theta", "10000.0"),            \
        FORMAT_KEY("rope_scaling.rope_type|rope_scaling.type|rope_parameters.rope_type",           \
                   "rope_scaling", "default=none|linear=linear|llama3=llama3", "default"),         \
        FORMAT_PLAIN(SCALING("factor"), "rope_factor", "0"),                                       \
        FORMAT_PLAIN(SCALING("original_max_position_embeddings"), "rope_original", "0"),           \
        FORMAT_PLAIN(SCALING("low_freq_factor"), "rope_low", "0"),                                 \
        FORMAT_PLAIN(SCALING("high_freq_factor"), "rope_high", "0"),                               \
        FORMAT_PLAIN("rms_norm_eps", "norm_eps", "1e-06"),                                         \
        FORMAT_ONLY("rope_parameters.partial_rotary_factor|partial_rotary_factor", "1.0", "1.0"),  \
        FORMAT_ONLY("quantization_config", "null", "null")

#define HEAD_DIM(dflt) FORMAT_PLAIN("head_dim", "head_dim", dflt)
#define KV_HEADS(dflt) FORMAT_PLAIN("num_key_value_heads", "kv_heads", dflt)
#define TYPE(name) FORMAT_ONLY("model_type", name, name)
#define NONE(key) FORMAT_IMPLIED(key, "off")
#define EVEN "hidden_size/num_attention_heads"

static const weft_model_field *const llama[] = {TYPE("llama"),
                                                FIELDS,
                                                HEAD_DIM(EVEN),
                                                KV_HEADS("1*num_attention_heads"),
                                                NONE("qkv_bias"),
                                                NONE("qk_norm"),
                                                FORMAT_ONLY("attention_bias", "false", "false"),
                                                FORMAT_ONLY("mlp_bias", "false", "false"),
                                                NULL};

static const weft_model_field *const mistral[] = {TYPE("mistral"),
                                                  FIELDS,
                                                  HEAD_DIM(EVEN),
                                                  KV_HEADS("8"),
                                                  NONE("qkv_bias"),
                                                  NONE("qk_norm"),
                                                  FORMAT_ONLY("sliding_window", "4096", "null"),
                                                  NULL};

static const weft_model_field *const qwen2[] = {TYPE("qwen2"),
                                                FIELDS,
                                                HEAD_DIM(EVEN),
                                                KV_HEADS("32"),
                                                FORMAT_IMPLIED("qkv_bias", "on"),
                                                NONE("qk_norm"),
                                                FORMAT_ONLY("use_sliding_window", "false", "false"),
                                                NULL};

static const weft_model_field *const qwen3[] = {TYPE("qwen3"),
                                                FIELDS,
                                                HEAD_DIM("128"),
                                                KV_HEADS("32"),
                                                NONE("qkv_bias"),
                                                FORMAT_IMPLIED("qk_norm", "on"),
                                                FORMAT_ONLY("attention_bias", "false", "false"),
                                                FORMAT_ONLY("use_sliding_window", "false", "false"),
                                                NULL};

#define FORMAT(class, names, options)                                                              \
    &(const weft_model_format)                                                                     \
    {                                                                                              \
        .struct_size = sizeof(weft_model_format), .format = "huggingface", .architecture = class,  \
        .prefix = "model.", .tensors = names, .fields = options                                    \
    }

const weft_model_format *const llama_formats[] = {
    FORMAT("LlamaForCausalLM", plain, llama), FORMAT("MistralForCausalLM", plain, mistral),
    FORMAT("Qwen2ForCausalLM", biased, qwen2), FORMAT("Qwen3ForCausalLM", normed, qwen3), NULL};
