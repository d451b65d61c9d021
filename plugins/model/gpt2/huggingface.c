/* huggingface.c: GPT2LMHeadModel of Hugging Face transformers. Its Conv1D keeps [in, out]: the four
 * matrices are transposed. */
#include "huggingface.h"

#include "format.h"

static const weft_model_tensor *const tensors[] = {
    FORMAT_ROW("embed.tok.w", "wte.weight", NULL),
    FORMAT_ROW("embed.pos.w", "wpe.weight", NULL),
    FORMAT_ROW("block.*.ln1.g", "h.*.ln_1.weight", NULL),
    FORMAT_ROW("block.*.ln1.b", "h.*.ln_1.bias", NULL),
    FORMAT_ROW("block.*.attn.qkv.w", "h.*.attn.c_attn.weight", "embed (three heads head_dim)"),
    FORMAT_ROW("block.*.attn.qkv.b", "h.*.attn.c_attn.bias", "(three heads head_dim)"),
    FORMAT_ROW("block.*.attn.out.w", "h.*.attn.c_proj.weight", "(heads head_dim) embed"),
    FORMAT_ROW("block.*.attn.out.b", "h.*.attn.c_proj.bias", NULL),
    FORMAT_ROW("block.*.ln2.g", "h.*.ln_2.weight", NULL),
    FORMAT_ROW("block.*.ln2.b", "h.*.ln_2.bias", NULL),
    FORMAT_ROW("block.*.ffn.in.w", "h.*.mlp.c_fc.weight", "embed ffn"),
    FORMAT_ROW("block.*.ffn.in.b", "h.*.mlp.c_fc.bias", NULL),
    FORMAT_ROW("block.*.ffn.out.w", "h.*.mlp.c_proj.weight", "ffn embed"),
    FORMAT_ROW("block.*.ffn.out.b", "h.*.mlp.c_proj.bias", NULL),
    FORMAT_ROW("head.ln.g", "ln_f.weight", NULL),
    FORMAT_ROW("head.ln.b", "ln_f.bias", NULL),
    FORMAT_BARE("head.w", "lm_head.weight", NULL),
    FORMAT_ROW(NULL, "h.*.attn.bias", NULL), /* the causal mask, in files of older versions */
    FORMAT_ROW(NULL, "h.*.attn.masked_bias", NULL),
    NULL,
};

static const weft_model_field *const fields[] = {
    FORMAT_KEY("n_layer", "layers", NULL, NULL),
    FORMAT_KEY("n_head", "heads", NULL, NULL),
    FORMAT_KEY("n_embd", "embed", NULL, NULL),
    FORMAT_KEY("n_inner", "ffn", NULL, "4*n_embd"),
    FORMAT_KEY("n_positions", "context", NULL, NULL),
    FORMAT_KEY("vocab_size", "vocab", NULL, NULL),
    FORMAT_KEY("tie_word_embeddings", "tied", "true=on|false=off", "true"),
    FORMAT_KEY("layer_norm_epsilon", "norm_eps", NULL, "1e-05"),
    FORMAT_ONLY("activation_function", "gelu_new", "gelu_new|gelu_pytorch_tanh"),
    FORMAT_ONLY("scale_attn_weights", "true", "true"),
    FORMAT_ONLY("scale_attn_by_inverse_layer_idx", "false", "false"),
    FORMAT_ONLY("add_cross_attention", "false", "false"),
    NULL,
};

static const weft_model_format huggingface = {.struct_size = sizeof huggingface,
                                              .format = "huggingface",
                                              .architecture = "GPT2LMHeadModel",
                                              .prefix = "transformer.",
                                              .tensors = tensors,
                                              .fields = fields};
const weft_model_format *const gpt2_formats[] = {&huggingface, NULL};
