/* llama.h: what the files of this plugin share: the options of [model] as numbers.
 *
 * options.c declares, reads and checks the keys, llama.c builds the graph, huggingface.c has the
 * names of Hugging Face transformers. */
#ifndef LLAMA_LLAMA_H
#define LLAMA_LLAMA_H

#include "layers.h"

/* How angles of positions are changed for sequences longer than those of a first training (the
 * attributes of the op rope, docs/OPS.md). */
typedef struct llama_rope {
    double factor; /* what angles are divided by; 1: nothing */
    double low, high;
    int64_t original; /* 0: every angle is divided */
} llama_rope;

typedef struct llama_options {
    layers_options o;
    llama_rope rope;
    bool scaling;   /* angles are divided */
    bool stretched; /* as in Llama 3 */
    bool gelu;      /* the gate goes through GELU, not SiLU */
    bool qkv_bias;  /* queries, keys and values have biases */
    bool qk_norm;   /* each head of queries and keys is normalised before it is rotated */
} llama_options;

/* The keys of [model], NULL-ended. */
extern const weft_option *const llama_keys[];

/* Read the keys without checking them. [plan] */
void llama_read(const weft_conf *conf, llama_options *out);

/* Check them, and take the vocabulary of the data where the key is 0. WEFT_USAGE names the key.
 * [plan] */
weft_status llama_check(const weft_host *host, const weft_data_info *data, llama_options *o);

/* Elements of a head: the key, or embed / heads. [any] */
int64_t llama_head_dim(const layers_options *o);

/* Elements of all parameters. [any] */
uint64_t llama_params(const llama_options *o);

#endif
