/* weft/model.h: model families, "weft.model/1".
 *
 * A family builds the forward graph of one micro-batch from its options ([model]) with the graph
 * builder: parameters, ops and, at the end, the loss. Everything else is derived by the core:
 * gradients, placements on ranks, communication, memory. So a family knows nothing of ranks and
 * devices, and every strategy works with it as far as it finds what it looks for by axes, roles and
 * op ids (docs/OPS.md); new names for these should be rare.
 *
 * Inputs are the fields of the data source (data.h) under their names, and the core's own
 * (graph.h). An input's shape is [tokens N, axes of the field...] where N is batch * sequence. Its
 * type is that of the field, or 0 for the job's compute type where the field is WEFT_F32: the core
 * rounds.
 *
 * A family may also say, as constant data, how its parameters and options are called in files of
 * other programs, so that their weights can be read and written.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include <weft/data.h>

WEFT_EXTERN_C_BEGIN

/* What build() has to emit. */
#define WEFT_MODEL_TRAIN 1u  /* the loss; ops that act in training alone (dropout) are there */
#define WEFT_MODEL_EVAL 2u   /* the loss, without them */
#define WEFT_MODEL_LOGITS 3u /* the outputs [tokens, ...] themselves, without the loss */

typedef struct weft_model_args {
    uint32_t struct_size, flags;
    uint32_t want;    /* WEFT_MODEL_... */
    uint32_t vocab;   /* model_info.vocab of this job */
    int64_t batch;    /* samples of this micro-batch, over the whole data-parallel job */
    int64_t sequence; /* rows a sample */

    /* What a row's loss is multiplied by: 1 / (rows of a step). A family whose loss counts other
     * things than rows (one class an image) multiplies by the rows of a sample first. */
    double weight;
    const weft_conf *conf;
    const weft_field *fields; /* [nfields] of the job's data; NULL where there is none */
    uint32_t nfields, reserved;
} weft_model_args;
WEFT_FREEZE(weft_model_args, reserved, 64);

/* What the core has to know before it builds. */
typedef struct weft_model_info {
    uint32_t struct_size, flags;
    uint64_t params; /* elements of all parameters, each counted once */
    int64_t context; /* the most rows of a sample; 0: any number */
    uint32_t vocab;  /* ids that the model tells apart, those of the data or more; 0: takes none */
    uint32_t reserved;
} weft_model_info;
WEFT_FREEZE(weft_model_info, reserved, 32);

/* --- Names elsewhere: constant data --- */

/* A parameter in a file of another program. */
typedef struct weft_model_tensor {
    uint32_t struct_size;
    uint32_t flags; /* WEFT_TENSOR_... */

    /* "block.*.attn.qkv.w"; '*' is the number of a layer, in both names. NULL: a tensor that some
     * files have and that is no parameter (a mask); it is skipped. */
    const char *param;
    const char *name; /* "h.*.attn.c_attn.weight" */

    /* Axes of the tensor there, slowest first, by the names of the parameter's; axes that are one
     * axis there stand in brackets: "embed (three heads head_dim)". NULL: the axes of the parameter
     * in their order, in as many axes as the file has. */
    const char *axes;
} weft_model_tensor;
WEFT_FREEZE(weft_model_tensor, axes, 32);
#define WEFT_TENSOR_BARE 1u /* the name never has the format's prefix */

/* A field of the other program's configuration. Names separated by '|' mean the same: a file where
 * two of them differ is refused, and '.' leads into an object:
 * "rope_theta|rope_parameters.rope_theta". A value is text as it stands in the file ("1e-05",
 * "true", "null"), or the product or quotient of a number or field and another: "4*n_embd",
 * "hidden_size/num_attention_heads". */
typedef struct weft_model_field {
    uint32_t struct_size;
    uint32_t flags;  /* WEFT_FIELD_... */
    const char *key; /* of [model]; NULL: weft has no such choice, `values` are the possible ones */
    const char *field; /* "n_layer" */
    const char *dflt;  /* the value of a file without it, or with null; NULL: it must be there */

    /* With a key: pairs "THERE=HERE|THERE=HERE" for values that are called otherwise, else NULL.
     * Without: the values that mean what this family computes, "gelu_new|gelu_pytorch_tanh". A null
     * in the file is the default unless it is one of them. */
    const char *values;
} weft_model_field;
WEFT_FREEZE(weft_model_field, values, 40);

/* No file has the field: with every model of this architecture `key` has the value `dflt`, which is
 * called as in the job. `values` is NULL, and `field` any name of its own. */
#define WEFT_FIELD_IMPLIED 1u

/* Names and fields of one architecture in the files of one program. A family may have several of
 * one format: "LlamaForCausalLM" and "Qwen2ForCausalLM" of "huggingface". Formats that this program
 * reads and writes are "huggingface" (a folder with config.json and safetensors files) and "llmc"
 * (a file of llm.c); others are ignored. A model is written as the first architecture whose fields
 * can say its options. */

typedef struct weft_model_format {
    uint32_t struct_size, flags;
    const char *format;       /* "huggingface" */
    const char *architecture; /* names there, separated by '|': "GPT2LMHeadModel" */
    const char *prefix;       /* that tensor names may have or lack: "transformer."; "" for none */
    const weft_model_tensor *const *tensors; /* NULL-ended; every parameter has one */
    const weft_model_field *const *fields;   /* NULL-ended */
} weft_model_format;
WEFT_FREEZE(weft_model_format, fields, 48);

/* --- The table --- */

typedef struct weft_model_table {
    uint32_t struct_size, flags;

    /* Check the options, and say what the core has to know. `data` is what the job's data has, or
     * NULL where there is none: then sizes that the data would give must be in the options. A wrong
     * option is WEFT_USAGE, naming the key. [plan] */
    weft_status (*describe)(void *module, const weft_conf *conf, const weft_data_info *data,
                            weft_model_info *out);

    /* Emit the graph. *out is the loss, fp32 and one element, or the outputs. Called several times
     * for one job, with other sizes. The embedding, each layer and the head are blocks of their
     * own: pipeline stages and recomputation are cut between blocks. [plan] */
    weft_status (*build)(void *module, const weft_model_args *args, const weft_builder *b,
                         weft_tensor *out);

    /* NULL-ended. OPT */
    const weft_model_format *const *formats;
} weft_model_table;
WEFT_FREEZE(weft_model_table, formats, 32);

WEFT_EXTERN_C_END

#endif
