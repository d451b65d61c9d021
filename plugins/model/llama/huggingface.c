/* huggingface.c: LlamaForCausalLM of Hugging Face transformers. Nothing is transposed, and rotary
 * pairs are the halves of a head in both. */
#include "huggingface.h"

#include "format.h"

static const weft_model_tensor *const tensors[] = {
    FORMAT_ROW("embed.tok.w", "embed_tokens.weight", NULL),
    FORMAT_ROW("block.*.norm1.g", "layers.*.input_layernorm.weight", NULL),
    FORMAT_ROW("block.*.attn.q.w", "layers.*.self_attn.q_proj.weight", "(heads head_dim) embed"),
    FORMAT_ROW("block.*.attn.k.w", "layers.*.self_attn.k_proj.weight", "(kv_heads head_dim) embed"),
    FORMAT_ROW("block.*.attn.v.w", "layers.*.self_attn.v_proj.weight", "(kv_heads head_dim) embed"),
    FORMAT_ROW("block.*.attn.out.w", "layers.*.self_attn.o_proj.weight", "embed (heads head_dim)"),
    FORMAT_ROW("block.*.norm2.g", "layers.*.post_attention_layernorm.weight", NULL),
    FORMAT_ROW("block.*.ffn.gate.w", "layers.*.mlp.gate_proj.weight", NULL),
    FORMAT_ROW("block.*.ffn.up.w", "layers.*.mlp.up_proj.weight", NULL),
    FORMAT_ROW("block.*.ffn.down.w", "layers.*.mlp.down_proj.weight", NULL),
    FORMAT_ROW("head.norm.g", "norm.weight", NULL),
    FORMAT_BARE("head.w", "lm_head.weight", NULL),
    FORMAT_ROW(NULL, "layers.*.self_attn.rotary_emb.inv_freq", NULL), /* of older versions */
    NULL,
};

static const weft_model_field *const fields[] = {
    FORMAT_KEY("num_hidden_layers", "layers", NULL, NULL),
    FORMAT_KEY("num_attention_heads", "heads", NULL, NULL),
    FORMAT_KEY("num_key_value_heads", "kv_heads", NULL, "1*num_attention_heads"),
    FORMAT_KEY("hidden_size", "embed", NULL, NULL),
    FORMAT_KEY("intermediate_size", "ffn", NULL, NULL),
    FORMAT_KEY("max_position_embeddings", "context", NULL, NULL),
    FORMAT_KEY("vocab_size", "vocab", NULL, NULL),
    FORMAT_KEY("tie_word_embeddings", "tied", "true=on|false=off", "false"),
    FORMAT_KEY("rope_theta|rope_parameters.rope_theta", "rope_theta", NULL, "10000.0"),
    FORMAT_KEY("rms_norm_eps", "norm_eps", NULL, "1e-06"),
    FORMAT_ONLY("hidden_act", "silu", "silu"),
    FORMAT_ONLY("head_dim", "hidden_size/num_attention_heads", "hidden_size/num_attention_heads"),
    FORMAT_ONLY("rope_scaling", "null", "null"),
    FORMAT_ONLY("rope_parameters.rope_type", "default", "default"),
    FORMAT_ONLY("attention_bias", "false", "false"),
    FORMAT_ONLY("mlp_bias", "false", "false"),
    NULL,
};

static const weft_model_format huggingface = {.struct_size = sizeof huggingface,
                                              .format = "huggingface",
                                              .architecture = "LlamaForCausalLM",
                                              .prefix = "model.",
                                              .tensors = tensors,
                                              .fields = fields};
const weft_model_format *const llama_formats[] = {&huggingface, NULL};
