/* huggingface.c: the names of other programs. GPT2LMHeadModel of Hugging Face transformers: its
 * Conv1D keeps [in, out]: the four matrices are transposed. */
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
    FORMAT_NEEDED("n_layer", "layers"),
    FORMAT_NEEDED("n_head", "heads"),
    FORMAT_NEEDED("n_embd", "embed"),
    FORMAT_PLAIN("n_inner", "ffn", "4*n_embd"),
    FORMAT_NEEDED("n_positions", "context"),
    FORMAT_NEEDED("vocab_size", "vocab"),
    FORMAT_KEY("tie_word_embeddings", "tied", "true=on|false=off", "true"),
    FORMAT_PLAIN("layer_norm_epsilon", "norm_eps", "1e-05"),
    FORMAT_ONLY("model_type", "gpt2", "gpt2"),
    FORMAT_ONLY("activation_function", "gelu_new", "gelu_new|gelu_pytorch_tanh|gelu_fast"),
    FORMAT_ONLY("scale_attn_weights", "true", "true"),
    FORMAT_ONLY("scale_attn_by_inverse_layer_idx", "false", "false"),
    FORMAT_ONLY("add_cross_attention", "false", "false"),
    FORMAT_ONLY("quantization_config", "null", "null"),
    NULL,
};

static const weft_model_format huggingface = {.struct_size = sizeof huggingface,
                                              .format = "huggingface",
                                              .architecture = "GPT2LMHeadModel",
                                              .prefix = "transformer.",
                                              .tensors = tensors,
                                              .fields = fields};

/* --- llm.c: a file of fixed order (tools/formats/llmc.c), whose tensors are those of weft --- */

static const weft_model_tensor *const llmc_tensors[] = {
    FORMAT_ROW("embed.tok.w", "wte", NULL),
    FORMAT_ROW("embed.pos.w", "wpe", NULL),
    FORMAT_ROW("block.*.ln1.g", "ln1w.*", NULL),
    FORMAT_ROW("block.*.ln1.b", "ln1b.*", NULL),
    FORMAT_ROW("block.*.attn.qkv.w", "qkvw.*", "(three heads head_dim) embed"),
    FORMAT_ROW("block.*.attn.qkv.b", "qkvb.*", "(three heads head_dim)"),
    FORMAT_ROW("block.*.attn.out.w", "attprojw.*", "embed (heads head_dim)"),
    FORMAT_ROW("block.*.attn.out.b", "attprojb.*", NULL),
    FORMAT_ROW("block.*.ln2.g", "ln2w.*", NULL),
    FORMAT_ROW("block.*.ln2.b", "ln2b.*", NULL),
    FORMAT_ROW("block.*.ffn.in.w", "fcw.*", NULL),
    FORMAT_ROW("block.*.ffn.in.b", "fcb.*", NULL),
    FORMAT_ROW("block.*.ffn.out.w", "fcprojw.*", NULL),
    FORMAT_ROW("block.*.ffn.out.b", "fcprojb.*", NULL),
    FORMAT_ROW("head.ln.g", "lnfw", NULL),
    FORMAT_ROW("head.ln.b", "lnfb", NULL),
    NULL,
};

static const weft_model_field *const llmc_fields[] = {
    FORMAT_NEEDED("num_layers", "layers"),
    FORMAT_NEEDED("num_heads", "heads"),
    FORMAT_NEEDED("channels", "embed"),
    FORMAT_IMPLIED("ffn", "4*channels"),
    FORMAT_NEEDED("max_seq_len", "context"),
    FORMAT_NEEDED("vocab_size", "vocab"),
    FORMAT_KEY("tied", "tied", "true=on", "true"),
    FORMAT_IMPLIED("norm_eps", "1e-05"),
    NULL,
};

static const weft_model_format llmc = {.struct_size = sizeof llmc,
                                       .format = "llmc",
                                       .architecture = "GPT2",
                                       .prefix = "",
                                       .tensors = llmc_tensors,
                                       .fields = llmc_fields};

const weft_model_format *const gpt2_formats[] = {&huggingface, &llmc, NULL};
